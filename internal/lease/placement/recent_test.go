package placement

import (
	"math"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"pgregory.net/rapid"
)

// reading is a sample of a device so many seconds after the first.
func reading(seconds float64, load gpu.Percent, heat gpu.Celsius) *gpu.Sample {
	at := time.Unix(1000, 0).Add(time.Duration(seconds * float64(time.Second)))
	return &gpu.Sample{Time: at, Utilization: gpu.Some(load), Temperature: gpu.Some(heat)}
}

// An average follows a change within seconds and takes a minute to arrive; a
// moment does not move it by a step.
func TestRecentFollowsSlowly(t *testing.T) {
	var r Recent
	r.Add(reading(0, 0, 40))
	if r.Load.Mean != 0 || r.Heat.Mean != 40 || !r.Load.Known() {
		t.Fatalf("the first sample gives %+v", r)
	}
	r.Add(reading(1, 100, 60))
	if r.Load.Step != 0 || r.Heat.Step != 0 {
		t.Errorf("one second of load moves it to %+v", r)
	}
	for second := 2; second <= 61; second++ {
		r.Add(reading(float64(second), 100, 60))
		if second == 6 && r.Load.Step < 2 {
			t.Errorf("after five seconds of load it is at %+v", r.Load)
		}
	}
	if r.Load.Mean < 94 || r.Load.Step < 9 || r.Heat.Mean < 58 || r.Heat.Step != 2 {
		t.Errorf("after a minute of load it is at %+v", r)
	}
}

// How often a device is read makes no difference, and a gap forgets.
func TestRecentGoesByTime(t *testing.T) {
	var often, rarely, gap Recent
	for _, r := range []*Recent{&often, &rarely, &gap} {
		r.Add(reading(0, 0, 40))
	}
	for i := 1; i <= 100; i++ {
		often.Add(reading(float64(i)/10, 80, 70))
	}
	rarely.Add(reading(10, 80, 70))
	if math.Abs(often.Load.Mean-rarely.Load.Mean) > 1e-6 || often.Load.Step != rarely.Load.Step {
		t.Errorf("ten times a second %+v, once in ten seconds %+v", often.Load, rarely.Load)
	}
	gap.Add(reading(600, 80, 70))
	if gap.Load.Mean < 79.9 || gap.Heat.Step != 4 {
		t.Errorf("after ten minutes without a sample it is at %+v", gap)
	}
	gap.Add(reading(300, 0, 40)) // the clock was set back
	if gap.Load.Mean < 79.9 {
		t.Errorf("a clock that was set back moves it to %+v", gap.Load)
	}
}

func TestRecentWithoutMetrics(t *testing.T) {
	var r Recent
	r.Add(&gpu.Sample{Time: time.Unix(1, 0)})
	if r.Load.Known() || r.Heat.Known() {
		t.Errorf("a sample without metrics gives %+v", r)
	}
	r.Add(reading(0, 50, 60))
	was := r
	r.Add(&gpu.Sample{Time: time.Unix(2000, 0)})
	r.Add(reading(3000, gpu.Percent(math.NaN()), gpu.Celsius(math.Inf(1))))
	if r != was {
		t.Errorf("what is not measured moves it from %+v to %+v", was, r)
	}
}

// Noise of less than half a step around any average changes its step at most
// once.
func TestStepsDoNotFlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		middle := rapid.Float64Range(0, 100).Draw(t, "average")
		var r Recent
		changes, step := 0, 0
		for i, noise := range rapid.SliceOfN(rapid.Float64Range(-2.4, 2.4), 2, 200).Draw(t, "noise") {
			r.Add(reading(float64(i)*1000, gpu.Percent(middle+noise), 40)) // so far apart that each sample counts alone
			if i > 0 && r.Load.Step != step {
				changes++
			}
			step = r.Load.Step
			if off := math.Abs(r.Load.Mean - float64(step)*loadStep); off > 0.75*loadStep+1e-9 && step > 0 && step < loadSteps {
				t.Fatalf("%v %% is in step %d", r.Load.Mean, step)
			}
		}
		if changes > 1 {
			t.Fatalf("the step changed %d times", changes)
		}
	})
}
