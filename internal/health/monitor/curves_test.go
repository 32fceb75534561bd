package monitor

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/gpu"
)

// Averages end now and begin where samples begin; a hole repeats what was before
// it, and a sample ahead of the clock counts as of now.
func TestCurves(t *testing.T) {
	now := time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	u := &unit{uuid: "GPU-0", history: history{size: 100}}
	m := &Monitor{units: []*unit{u}}
	for _, s := range []struct {
		ago  time.Duration
		load gpu.Percent
	}{{time.Hour, 99}, {200 * time.Second, 10}, {190 * time.Second, 20}, {50 * time.Second, 70}, {-time.Second, 90}} {
		u.history.add(&gpu.Sample{Time: now.Add(-s.ago), Utilization: gpu.Some(s.load)})
	}
	c := m.Curves("GPU-0", now, 5)
	if diff := cmp.Diff([]gpu.Percent{15, 15, 15, 80}, c.Utilization); diff != "" {
		t.Error(diff)
	}
	if len(c.Temperature) != 0 || c.Points != 5 || c.Seconds != 300 {
		t.Errorf("%+v", c)
	}
	if c := m.Curves("GPU-gone", now, 5); c.Utilization == nil || len(c.Utilization) != 0 {
		t.Errorf("of no device: %+v", c)
	}
}
