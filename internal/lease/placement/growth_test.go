package placement

import (
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// A device with two slots of its own, and up to two more.
func TestGrowth(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var g Growth
	var recent Recent
	for _, step := range []struct {
		name   string
		after  time.Duration
		active int
		load   gpu.Percent
		slow   bool
		want   int
	}{
		{"nobody uses it", 0, 0, 0, false, 0},
		{"a slot is free", 5 * time.Minute, 1, 5, false, 0},
		{"the second has just begun", 5 * time.Minute, 2, 5, false, 0},
		{"it has run for a minute", time.Minute, 2, 5, false, 1},
		{"not while it should run slower", time.Second, 2, 5, true, 0},
		{"the third has just begun", time.Second, 3, 5, false, 1},
		{"there is room for one more", time.Minute, 3, 5, false, 2},
		{"it is busy", 10 * time.Minute, 3, 95, false, 1},
		{"the fourth is the last", 10 * time.Minute, 4, 1, false, 2},
		{"also with little load", 10 * time.Minute, 4, 1, false, 2},
		{"one has ended, and its slot is free", time.Second, 3, 1, false, 2},
		{"all have ended", time.Second, 0, 1, false, 0},
	} {
		now = now.Add(step.after)
		recent.Add(&gpu.Sample{Time: now, Utilization: gpu.Some(step.load)})
		if got := g.Extra(step.active, 2, 2, !step.slow, &recent.Load, now); got != step.want {
			t.Errorf("%s: %d slots more, want %d", step.name, got, step.want)
		}
	}
	if got := new(Growth).Extra(2, 2, 2, true, &Average{}, now.Add(time.Hour)); got != 0 {
		t.Errorf("without a measurement it has %d slots more", got)
	}
}
