package view

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/fleet"
	"github.com/berth-gpu/berth/internal/text/term"
)

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
		all := &Status{StatusAll: someStatus(), Leasable: someAvailable()}
		for i := range all.GPUs {
			all.GPUs[i].Device.Name = names().Draw(t, "name")
		}
		width := rapid.IntRange(40, 200).Draw(t, "width")
		table := all.fit(width)
		lines := table.Lines(width, false)
		for _, line := range lines {
			if term.Columns(line) > width {
				t.Fatalf("%d columns, want at most %d: %q", term.Columns(line), width, line)
			}
			// The last column is aligned to the right: if it ends everywhere
			// at the same place, all before it line up.
			if term.Columns(line) != term.Columns(lines[0]) {
				t.Fatalf("lines do not end together:\n%s", strings.Join(lines, "\n"))
			}
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
		if got := share(gpu.Some(c.share), 4); got != c.want {
			t.Errorf("%v: %q, want %q", c.share, got, c.want)
		}
	}
	if got := share(gpu.Opt[gpu.Percent]{}, 4); got != "    " {
		t.Errorf("unknown: %q", got)
	}
}

func TestMemoryBar(t *testing.T) {
	size := func(string) int { return 4 }
	for _, c := range []struct {
		used, leased, foreign gpu.MiB
		want                  string
	}{
		{0, 0, 0, "░░░░"}, {25, 0, 25, "█░░░"}, {25, 50, 25, "█▒▒░"}, {75, 50, 25, "███░"}, {100, 500, 0, "████"}, {0, 1, 0, "▒░░░"},
	} {
		d := fleet.GPU{Leased: c.leased + c.foreign, Status: api.Status{Sample: &gpu.Sample{MemoryUsed: gpu.Some(c.used), MemoryTotal: gpu.Some[gpu.MiB](100)}}}
		if got := DeviceMemory(d, size); !strings.HasPrefix(got, c.want+" ") {
			t.Errorf("%+v: %q", c, got)
		}
	}
	if got := DeviceMemory(fleet.GPU{Leased: 5, Status: api.Status{Sample: new(gpu.Sample)}}, size); got != "        -/-" {
		t.Errorf("unknown: %q", got)
	}
}
