package slowdown_test

import (
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/enforce/slowdown"
)

func TestPolicies(t *testing.T) {
	order := []slowdown.Policy{"", slowdown.Exempt, slowdown.Advise, slowdown.Slots, slowdown.Pace, slowdown.Power}
	for i, p := range order {
		for j, q := range order[1:] {
			if got, want := p.Does(q), i >= j+1; got != want {
				t.Errorf("%q does %q: %v", p, q, got)
			}
		}
	}
	for _, c := range []struct {
		policy           slowdown.Policy
		multiplier, want float64
	}{
		{slowdown.Advise, 0.5, 1}, {slowdown.Advise, 1, 1}, {slowdown.Advise, 0, 0},
		{slowdown.Slots, 0.5, 0.5}, {slowdown.Pace, 0.8, 0.8}, {slowdown.Power, 0, 0},
	} {
		if got := slowdown.SlotSpeed(c.policy, c.multiplier); got != c.want {
			t.Errorf("%s at %g: slots at %g", c.policy, c.multiplier, got)
		}
	}
}

// A ramp falls at once and rises in steps, which come more slowly after each
// relapse.
func TestRamp(t *testing.T) {
	var r slowdown.Ramp
	now := time.Unix(0, 0)
	if r.Follow(now, 1) != 1 {
		t.Error("a device that may run at full speed is held back")
	}
	reach := func(multiplier float64) time.Duration {
		begun := now
		for r.Follow(now, multiplier) != multiplier {
			now = now.Add(time.Second)
		}
		return now.Sub(begun)
	}
	if took := reach(0.5); took != 0 {
		t.Errorf("it fell within %v, want at once", took)
	}
	if took := reach(1); took != 30*time.Second {
		t.Errorf("it rose within %v, want 30 s", took)
	}
	reach(0.5)
	if took := reach(1); took != 60*time.Second {
		t.Errorf("it rose within %v after a relapse, want 60 s", took)
	}
	for range 20 {
		reach(0)
		reach(1)
	}
	reach(0.8)
	if took := reach(1); took != 480*time.Second {
		t.Errorf("it rose within %v after many relapses, want 480 s", took)
	}
	now = now.Add(10 * time.Minute)
	reach(1)
	r.Follow(now, 1)
	reach(0.9)
	if took := reach(1); took != 15*time.Second {
		t.Errorf("it rose within %v after a long time without relapse, want 15 s", took)
	}
}

func TestFan(t *testing.T) {
	curve, err := config.ParseCurve("50:30,70:60,85:100")
	if err != nil {
		t.Fatal(err)
	}
	var f slowdown.Fan
	for _, c := range []struct {
		celsius gpu.Opt[gpu.Celsius]
		want    slowdown.Fan
	}{
		{gpu.Some[gpu.Celsius](40), slowdown.Fan{Held: true, Speed: 30}},
		{gpu.Some[gpu.Celsius](60), slowdown.Fan{Held: true, Speed: 45}},
		{gpu.Some[gpu.Celsius](59), slowdown.Fan{Held: true, Speed: 45}}, // not cool enough to follow down
		{gpu.Some[gpu.Celsius](57), slowdown.Fan{Held: true, Speed: 45}},
		{gpu.Some[gpu.Celsius](55), slowdown.Fan{Held: true, Speed: 42}},
		{gpu.Some[gpu.Celsius](0), slowdown.Fan{Held: true, Speed: 42}}, // a sensor that jumps
		{gpu.Some[gpu.Celsius](255), slowdown.Fan{Held: true, Speed: 42}},
		{gpu.Some[gpu.Celsius](99), slowdown.Fan{Held: true, Speed: 100}},
		{gpu.Opt[gpu.Celsius]{}, slowdown.Fan{}},
	} {
		if f = f.Follow(curve, c.celsius); f != c.want {
			t.Errorf("at %v: %+v, want %+v", c.celsius, f, c.want)
		}
	}
	if got := (slowdown.Fan{Held: true, Speed: 50}).Follow(nil, gpu.Some[gpu.Celsius](60)); got != (slowdown.Fan{}) {
		t.Errorf("without a curve: %+v", got)
	}
}
