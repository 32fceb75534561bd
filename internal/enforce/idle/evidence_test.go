package idle_test

import (
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/enforce/idle"
)

func TestIdleEvidence(t *testing.T) {
	type sample struct {
		at     int
		share  float64 // less than 0: not known
		memory gpu.MiB
		over   int // seconds that were measured
	}
	for _, x := range []struct {
		name    string
		samples []sample
		since   int // less than 0: not idle
	}{
		{"nothing is known", nil, -1},
		{"it does nothing", []sample{{0, 0, 100, 1}, {5, 0, 100, 1}, {10, 0.2, 100, 1}}, 0},
		{"it works", []sample{{0, 0, 100, 1}, {5, 40, 100, 1}}, -1},
		{"it worked", []sample{{0, 40, 100, 1}, {5, 0, 100, 1}, {10, 0, 100, 1}}, 4},
		{"it worked, and all the time since was measured", []sample{{0, 40, 100, 1}, {5, 0, 100, 5}, {10, 0, 100, 5}}, 0},
		{"it worked, and more was measured than the time since", []sample{{0, 40, 100, 1}, {5, 0, 100, 9}}, 0},
		{"nothing was measured", []sample{{0, 40, 100, 1}, {5, 0, 100, 0}}, 5},
		{"its memory changed", []sample{{0, 0, 100, 1}, {5, 0, 101, 1}, {10, 0, 101, 1}}, 5},
		{"the driver does not say", []sample{{0, 0, 100, 1}, {5, -1, 100, 1}}, -1},
		{"nobody looked for a while", []sample{{0, 0, 100, 1}, {60, 0, 100, 1}}, 60},
		{"the clock went back", []sample{{10, 0, 100, 1}, {5, 0, 100, 1}}, 5},
	} {
		var e idle.Evidence
		start := time.Unix(1e9, 0)
		for _, s := range x.samples {
			share := gpu.Some(gpu.Percent(s.share))
			if s.share < 0 {
				share = gpu.Opt[gpu.Percent]{}
			}
			now := start.Add(time.Duration(s.at) * time.Second)
			e.Sample(now.Add(-time.Duration(s.over)*time.Second), now, share, s.memory)
		}
		idle, is := e.Idle()
		if is != (x.since >= 0) || is && !idle.Since.Equal(start.Add(time.Duration(x.since)*time.Second)) {
			t.Errorf("%s: %+v %v", x.name, idle, is)
		}
	}
}
