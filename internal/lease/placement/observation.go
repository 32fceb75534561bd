package placement

import (
	"cmp"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/health"
)

// Observation holds the latest measurement of a device and its state.
type Observation struct {
	Device  gpu.Device
	Sample  *gpu.Sample // nil if the device did not answer
	State   gpu.State
	Health  gpu.Health
	Removed bool   // it is an instance that its device does not have any more
	Stop    bool   // nothing is granted: the device is above temp_critical or in quarantine
	Reason  string // why it is in this state
	Closed  string // why nothing is granted although its state is good; empty if it is open

	Multiplier gpu.Opt[float64] // how fast work may run; if absent, the state decides
	Slower     string           // why that is slower than the state says; empty if it is not
	Warmth     gpu.Opt[Warmth]  // where its temperature settles; absent if not known

	Standing health.Standing
}

// Leasable reports whether anything of the device is ever leased: it is there, and is not cut
// into instances.
func (o *Observation) Leasable() bool { return !o.Removed && o.Device.Cut() == "" }

// Speed returns how fast work on the device may run.
func (o *Observation) Speed() float64 { return o.Multiplier.Or(o.State.Multiplier()) }

// Shut returns why nothing is granted on the device, or "" if it is open.
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
// scheduler has admitted, or "" if it is open to those. It ignores how fast work may run
// there, and a state that follows from its memory.
func (o *Observation) Barred() string { return cmp.Or(o.unfit(), o.Closed) }

// unfit returns why no request can use a device, or "" if requests can.
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
