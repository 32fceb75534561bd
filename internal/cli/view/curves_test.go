package view

import (
	"strings"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/term"
)

func TestCurves(t *testing.T) {
	for _, c := range []struct {
		list         []gpu.Percent
		points, size int
		want         string
	}{
		{[]gpu.Percent{0, 50, 100, 100}, 4, 4, "▁▅██"},
		{[]gpu.Percent{0, 0, 100, 100}, 4, 2, "▁█"},
		{[]gpu.Percent{100}, 4, 4, "   █"},
		{[]gpu.Percent{100}, 4, 2, " █"},
		{nil, 4, 4, "    "},
		{[]gpu.Percent{1, 2, 3}, 2, 2, "▁▁"}, // more than was promised
	} {
		if got, _ := curves(&api.Curves{Points: c.points, Utilization: c.list}, c.size); got != c.want {
			t.Errorf("%v in %d: %q, want %q", c.list, c.size, got, c.want)
		}
	}
	if load, temperature := curves(nil, 8); load+temperature != "" {
		t.Errorf("%q and %q of nothing", load, temperature)
	}
}

// Curves are shown where there is room for them and there are any.
func TestStatusWithCurves(t *testing.T) {
	all := someStatus()
	without := &Status{StatusAll: all, Leasable: someAvailable()}
	for width, want := range map[int]bool{80: false, 160: true} {
		all.GPUs[0].Curves = &api.Curves{Points: 20, Utilization: make([]gpu.Percent, 20), Temperature: []gpu.Celsius{80, 90}}
		lines := without.Lines(term.Screen{Width: width, Now: now})
		if got := strings.Contains(lines[0], "5 MIN"); got != want {
			t.Errorf("%d columns: %q", width, lines[0])
		}
		if got := strings.Contains(lines[1], "▆▇"); got != want {
			t.Errorf("%d columns: %q", width, lines[1])
		}
		all.GPUs[0].Curves = nil
		if lines := without.Lines(term.Screen{Width: width, Now: now}); strings.Contains(lines[0], "5 MIN") {
			t.Errorf("%d columns, without curves: %q", width, lines[0])
		}
	}
}
