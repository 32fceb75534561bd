package idle

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Spell is a time in which the processes of a lease do not use their device.
type Spell struct {
	Since       time.Time
	Utilization gpu.Percent // the most that its processes used of the device since then
	Memory      gpu.MiB     // what they hold, unchanged since then
}

// Evidence folds measurements of the processes of a lease into the time since which they
// are idle. The zero value knows nothing.
type Evidence struct {
	idle Spell
	last time.Time // of the newest sample
}

// NoUse is a share that a driver shows even for a process that does nothing. In a gap
// between samples longer than LongestGap anything may have happened.
const (
	NoUse      gpu.Percent = 0.5
	LongestGap             = 30 * time.Second
)

// Sample records how much the processes of the lease used the device since the last
// sample, and what they hold there now. An unknown share means that they may have used
// it.
func (e *Evidence) Sample(now time.Time, share gpu.Opt[gpu.Percent], memory gpu.MiB) {
	had, known := share.Get()
	continues := !e.idle.Since.IsZero() && memory == e.idle.Memory && now.Sub(e.last) <= LongestGap && !now.Before(e.last)
	e.last = now
	switch {
	case !known || !(had <= NoUse): // NaN counts as use
		e.idle = Spell{}
	case continues:
		e.idle.Utilization = max(e.idle.Utilization, had)
	default:
		e.idle = Spell{Since: now, Utilization: had, Memory: memory}
	}
}

// Idle returns since when the lease is idle. It returns false if the lease is in use or
// that is not known.
func (e *Evidence) Idle() (Spell, bool) { return e.idle, !e.idle.Since.IsZero() }
