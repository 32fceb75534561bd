package placement

import (
	"cmp"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/health"
)

// Observation holds the latest measurement of a device and its state.
type Observation struct {
	Device gpu.Device
	Sample *gpu.Sample // nil: it did not answer
	State  gpu.State
	Health gpu.Health
	Stop   bool   // nothing is granted: the device is above temp_critical or in quarantine
	Reason string // why it is in this state
	Closed string // why nothing is granted although its state is good; empty: it is open

	Multiplier gpu.Opt[float64] // how fast work may run; absent: as the state says
	Slower     string           // why that is slower than the state says; empty: it is not
	Warmth     gpu.Opt[Warmth]  // where its temperature ends; absent: not known

	Standing health.Standing
}

// Speed returns how fast work on the device may run.
func (o *Observation) Speed() float64 { return o.Multiplier.Or(o.State.Multiplier()) }

// Shut returns why nothing is granted on the device; "" if it is open.
func (o *Observation) Shut() string {
	switch unfit := o.unfit(); {
	case unfit != "":
		return unfit
	case o.Speed() == 0 && o.State.Multiplier() > 0:
		return o.Slower
	}
	return o.Closed
}

// Barred returns why nothing is granted on the device even to a request that another
// scheduler has admitted; "" if it is open to those. How fast work may run there does
// not count, nor does a state that follows from its memory.
func (o *Observation) Barred() string { return cmp.Or(o.unfit(), o.Closed) }

// unfit returns why a device cannot be used, whoever asks; "" if it can.
func (o *Observation) unfit() string {
	switch cut := o.Device.Cut(); {
	case cut != "":
		return cut
	case o.State == gpu.Unavailable:
		return o.Reason
	case o.Stop:
		return "it is too hot: " + o.Reason
	}
	return ""
}
