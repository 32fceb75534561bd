package ledger

import (
	"strings"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// slowed shows a device that may run only so fast, whatever its state says.
func slowed(multiplier float64) func(*placement.Observation) {
	return func(o *placement.Observation) {
		o.Multiplier, o.Slower = gpu.Some(multiplier), "it will be above temp_throttle 85 °C in 8 s"
	}
}

// A multiplier below that of the state takes slots away, and one of 0 all memory,
// too. What stands stays.
func TestForecastGrantsLess(t *testing.T) {
	w := newWorld()
	w.settings.Device = func(string) quota.DeviceSettings { return quota.DeviceSettings{MaxPipelines: 4} }
	k := w.start(t)
	k.device(0, 1000)
	held := k.grant(want("before", 100))
	for multiplier, usable := range map[float64]int{1: 4, 0.5: 2, 0: 0} {
		k.device(0, 1000, slowed(multiplier))
		if got := k.Sum(dev(0)); got.Usable != usable || got.State != gpu.Optimal || (got.Closed != "") != (multiplier == 0) {
			t.Errorf("at %v: %d usable slots in state %s, closed %q", multiplier, got.Usable, got.State, got.Closed)
		}
	}
	k.device(0, 1000, slowed(0))
	e, err := k.Explain(want("", 1))
	if err != nil || e.Refusal == nil || e.Refusal.Reasons[0].Code != placement.Closed || !strings.Contains(e.Refusal.Reasons[0].Text, "above temp_throttle") {
		t.Errorf("a request while the device will be too hot: %+v, %v", e.Refusal, err)
	}
	if _, stands := k.Find(held.Key()); !stands {
		t.Error("a forecast has ended a lease")
	}
	k.device(0, 1000)
	k.grant(want("after", 1))
}

// Where the temperature of a device ends reaches placement.
func TestWarmthReachesPlacement(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 1000, func(o *placement.Observation) {
		o.Warmth = gpu.Some(placement.Warmth{Settles: 84, PerWatt: 0.1, Limit: 75})
	})
	k.device(1, 1000, used(4000001, 500))
	if l := k.grant(want("cool", 100)); l.Parts[0].GPU != dev(1) {
		t.Errorf("the request got %s, which settles at 84 °C", l.Parts[0].GPU)
	}
}
