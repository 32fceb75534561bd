package cli

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/gpu"
)

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"", 10, ""},
		{"one two three", 7, "one two|three"},
		{"a  b\tc", 80, "a b c"},
		{"first\nsecond", 80, "first|second"},
		{"averyveryverylongword x", 5, "averyveryverylongword|x"},
		{"it is at 75 °C now", 13, "it is at|75 °C now"},
		{"模擬 カード", 8, "模擬|カード"},
	} {
		if got := strings.Join(wrap(c.text, c.width), "|"); got != c.want {
			t.Errorf("wrap(%q, %d) = %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

func TestClean(t *testing.T) {
	if got, want := cleanLines("a\x1b[31mb\x07\u202e\tc\nd"), "a?[31mb??  c\nd"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0 s", 1500 * time.Millisecond: "1 s", 90 * time.Second: "1 min",
		47 * time.Hour: "47 h", 49 * time.Hour: "2 days",
	} {
		if got := span(d); got != want {
			t.Errorf("span(%s) = %q, want %q", d, got, want)
		}
	}
}

func TestMoment(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.FixedZone("CET", 3600))
	for text, want := range map[string]string{
		"10m":                  "2026-01-31T11:50:00+01:00",
		"2026-01-31T10:00:00Z": "2026-01-31T10:00:00Z",
		"2026-01-31 10:00":     "2026-01-31T10:00:00+01:00",
		"2026-01-30":           "2026-01-30T00:00:00+01:00",
		"":                     "0001-01-01T00:00:00Z",
	} {
		got, err := moment("--since", text, now)
		if err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%q: %s, %v; want %s", text, got.Format(time.RFC3339), err, want)
		}
	}
	for _, text := range []string{"-10m", "soon", "2026-13-01"} {
		if _, err := moment("--since", text, now); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

// names draws what a device may call itself: wide characters, marks that take
// no room, and characters that are up to no good.
func names() *rapid.Generator[string] {
	return rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9 -]{0,40}`), rapid.StringN(0, 30, -1),
		rapid.SampledFrom([]string{"模擬カード", "e\u0301clair", "\x1b[2J", "🚀 card", "…"}))
}

// Whatever the names are and however wide the terminal is, columns begin at the
// same place in every line, and no line is too long if it can be helped.
func TestStatusTableLinesUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := &allDevices{fakeStatus("h"), fakeAvailable()}
		for i := range all.GPUs {
			all.GPUs[i].Device.Name = names().Draw(t, "name")
		}
		width := rapid.IntRange(40, 200).Draw(t, "width")
		table := all.fit(width)
		lines := table.lines(width, false)
		for _, line := range lines {
			if columns(line) > width {
				t.Fatalf("%d columns, want at most %d: %q", columns(line), width, line)
			}
			// The last column is aligned to the right: if it ends everywhere
			// at the same place, all before it line up.
			if columns(line) != columns(lines[0]) {
				t.Fatalf("lines do not end together:\n%s", strings.Join(lines, "\n"))
			}
		}
	})
}

func TestCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, width := names().Draw(t, "text"), rapid.IntRange(0, 20).Draw(t, "width")
		got := cut(clean(text), width)
		if columns(got) > width {
			t.Fatalf("%q has %d columns, want at most %d", got, columns(got), width)
		}
	})
}

func TestBar(t *testing.T) {
	for _, c := range []struct {
		share gpu.Percent
		want  string
	}{
		{-5, "░░░░"}, {0, "░░░░"}, {0.1, "█░░░"}, {50, "██░░"}, {100, "████"}, {250, "████"},
	} {
		if got := bar(gpu.Some(c.share), 4); got != c.want {
			t.Errorf("%v: %q, want %q", c.share, got, c.want)
		}
	}
	if got := bar(gpu.Opt[gpu.Percent]{}, 4); got != "    " {
		t.Errorf("unknown: %q", got)
	}
}
