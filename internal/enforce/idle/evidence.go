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
	idle   Spell
	last   time.Time // of the newest sample
	memory gpu.MiB   // in the newest sample
}

// NoUse is a share that a driver shows even for a process that does nothing. In a gap
// between samples longer than LongestGap anything may have happened.
const (
	NoUse      gpu.Percent = 0.5
	LongestGap             = 30 * time.Second
)

// Sample records how much the processes of the lease used the device from a moment until
// now, and what they hold there now. An unknown share means that they may have used it.
// From is the beginning of what was measured, which may be later than the last sample.
func (e *Evidence) Sample(from, now time.Time, share gpu.Opt[gpu.Percent], memory gpu.MiB) {
	had, known := share.Get()
	follows := memory == e.memory && now.Sub(e.last) <= LongestGap && !now.Before(e.last)
	last := e.last
	e.last, e.memory = now, memory
	switch {
	case !known || !(had <= NoUse): // NaN counts as use
		e.idle = Spell{}
	case follows && !e.idle.Since.IsZero():
		e.idle.Utilization = max(e.idle.Utilization, had)
	case follows && from.Before(now):
		e.idle = Spell{Since: latest(from, last), Utilization: had, Memory: memory}
	default:
		e.idle = Spell{Since: now, Utilization: had, Memory: memory}
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Idle returns since when the lease is idle. It returns false if the lease is in use or
// that is not known.
func (e *Evidence) Idle() (Spell, bool) { return e.idle, !e.idle.Since.IsZero() }
