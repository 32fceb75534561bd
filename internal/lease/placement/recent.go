package placement

import (
	"math"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Recent averages what was measured on a device lately. One sample says little:
// a device that computes half of the time reads 0 % or 100 % by chance. A
// sample loses its weight as it gets older, so that the last minute makes up 95 %
// of an average, and a device counts as busy some seconds after it has become so.
type Recent struct {
	Load Average // percent of the time in which the device computes
	Heat Average // temperature in degrees Celsius
}

// Average is the average of a metric at its newest sample.
type Average struct {
	Mean float64
	Step int // Mean in whole steps, which is what policies compare

	at time.Time // time of the newest sample; zero if there was none
}

// fading is the time in which the weight of a sample falls to 1/e.
const fading = 20 * time.Second

// Policies compare averages in steps, so that similar devices count as equal and other
// criteria decide between them. Idle devices differ by some degrees because of where they
// sit in the machine, so all devices below cool count as equal.
const (
	loadStep = 10 // per cent
	heatStep = 5  // degrees
	cool     = 50 // degrees

	loadSteps = 10              // the last step: 100 %
	heatSteps = 1<<heatBits - 1 // the last step: 205 °C and more
	heatBits  = 5
)

// Add adds a sample. A metric that the sample lacks keeps its average.
func (r *Recent) Add(s *gpu.Sample) {
	if load, measured := s.Utilization.Get(); measured {
		r.Load.add(s.Time, float64(load), 0, loadStep, loadSteps)
	}
	if heat, measured := s.Temperature.Get(); measured {
		r.Heat.add(s.Time, float64(heat), cool, heatStep, heatSteps)
	}
}

// Order returns a number that is smaller for a device that worked less lately
// and, among equals, for a cooler one.
func (r *Recent) Order() int {
	return min(max(r.Load.Step, 0), loadSteps)<<heatBits | min(max(r.Heat.Step, 0), heatSteps)
}

// Known reports whether the metric was ever measured. An unmeasured metric counts as
// zero, so that a device that cannot tell its load still gets work.
func (a Average) Known() bool { return !a.at.IsZero() }

// add adds a value. Steps begin at zero and have this width.
func (a *Average) add(at time.Time, value, zero, width float64, last int) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return
	}
	first := !a.Known()
	if first {
		a.Mean = value
	} else {
		age := max(at.Sub(a.at), 0) // the clock may have been set back
		a.Mean += (value - a.Mean) * -math.Expm1(-age.Seconds()/fading.Seconds())
	}
	a.at = at
	// An average near the border of two steps stays in its step until it is more than
	// three quarters of a step away from the middle.
	steps := (a.Mean - zero) / width
	if first || math.Abs(steps-float64(a.Step)) > 0.75 {
		a.Step = int(min(max(math.Round(steps), 0), float64(last)))
	}
}
