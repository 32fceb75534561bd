package idle

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Spell is a time in which the processes of a lease do not use their device.
type Spell struct {
	Since       time.Time
	Utilization gpu.Percent // what its processes had of the device since then, the most
	Memory      gpu.MiB     // what they hold, unchanged since then
}

// Evidence folds what is measured about the processes of a lease into since when
// they are idle. The zero value knows nothing.
type Evidence struct {
	idle Spell
	last time.Time // of the newest sample
}

// The limits of idleness: a share that a driver shows for a process that does
// nothing, and a gap between samples in which anything may have happened.
const (
	NoUse      gpu.Percent = 0.5
	LongestGap             = 30 * time.Second
)

// Sample takes in what the processes of the lease had of the device since the
// sample before, and what they hold there now. A share that is not known means
// that they may have used it.
func (e *Evidence) Sample(now time.Time, share gpu.Opt[gpu.Percent], memory gpu.MiB) {
	had, known := share.Get()
	continues := !e.idle.Since.IsZero() && memory == e.idle.Memory && now.Sub(e.last) <= LongestGap && !now.Before(e.last)
	e.last = now
	switch {
	case !known || !(had <= NoUse): // also what is no number
		e.idle = Spell{}
	case continues:
		e.idle.Utilization = max(e.idle.Utilization, had)
	default:
		e.idle = Spell{Since: now, Utilization: had, Memory: memory}
	}
}

// Idle returns since when the lease is idle; false: it is not, or that is not
// known.
func (e *Evidence) Idle() (Spell, bool) { return e.idle, !e.idle.Since.IsZero() }
