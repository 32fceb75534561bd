package term

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
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
		{"4 GPUs: 4 OPTIMAL · 3 of 96 GiB · 10 of 16 slots", 30, "4 GPUs: 4 OPTIMAL ·|3 of 96 GiB · 10 of 16 slots"},
		{"1 job · an item that is longer than a line · 2 more", 20, "1 job · an item that|is longer than a|line · 2 more"},
	} {
		if got := strings.Join(Wrap(c.text, c.width), "|"); got != c.want {
			t.Errorf("Wrap(%q, %d) = %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

// The lead stands before the first line only, and takes the colour.
func TestHang(t *testing.T) {
	to := Screen{Painter: true, Width: 24}
	if got, want := to.Hang(Red, "✗ ", "GPU 2 must rest for a while"), "\x1b[31m✗ \x1b[0mGPU 2 must rest for a\n  while"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestParagraph(t *testing.T) {
	if got, want := strings.Join(Paragraph("→ ", "   ", "at 75\n°C for now", 9), "|"), "→ at 75|   °C for|   now"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestClean(t *testing.T) {
	if got, want := CleanLines("a\x1b[31mb\x07\u202e\tc\nd"), "a?[31mb??  c\nd"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// names draws what a device may call itself: wide characters, marks that take
// no room, and characters that are up to no good.
func names() *rapid.Generator[string] {
	return rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9 -]{0,40}`), rapid.StringN(0, 30, -1),
		rapid.SampledFrom([]string{"模擬カード", "e\u0301clair", "\x1b[2J", "🚀 card", "…"}))
}

func TestCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, width := names().Draw(t, "text"), rapid.IntRange(0, 20).Draw(t, "width")
		got := Cut(Clean(text), width)
		if Columns(got) > width {
			t.Fatalf("%q has %d columns, want at most %d", got, Columns(got), width)
		}
	})
}

// A folded text fits its column, and nothing of it gets lost but blanks.
func TestFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, width := Clean(names().Draw(t, "text")), rapid.IntRange(2, 20).Draw(t, "width")
		lines := fold(text, width)
		for _, line := range lines {
			if Columns(line) > width {
				t.Fatalf("%q has %d columns, want at most %d", line, Columns(line), width)
			}
		}
		blanks := strings.NewReplacer(" ", "")
		if got, want := blanks.Replace(strings.Join(lines, "")), blanks.Replace(text); got != want {
			t.Fatalf("%q became %q", want, got)
		}
	})
}

func TestBar(t *testing.T) {
	for _, c := range []struct {
		share float64
		want  string
	}{
		{-5, "░░░░"}, {0, "░░░░"}, {0.1, "█░░░"}, {50, "██░░"}, {100, "████"}, {250, "████"}, {math.NaN(), "    "},
	} {
		if got := Bar(c.share, 4); got != c.want {
			t.Errorf("%v: %q, want %q", c.share, got, c.want)
		}
	}
}
