package placement

import "time"

// Growth decides about the slots of a device beyond those that it always has. Its zero
// value is that of a device nobody uses.
type Growth struct {
	active int       // slots in use when it was last asked
	since  time.Time // when that number last rose; zero if it never did
}

// The conditions for one more slot: the device computes for less than half of the time,
// and the last pipeline to begin has run for long enough to show in that average.
const (
	lightLoad  = 50 // percent
	settleTime = 3 * fading
)

// Extra returns how many slots a device has beyond its own, at most as many as given. One
// that is in use stays. While all are in use and the device runs at full speed with little
// load, it has one more. A device whose load is not known has none.
func (g *Growth) Extra(active, own, most int, fullSpeed bool, load *Average, now time.Time) int {
	if active > g.active || g.since.After(now) { // the clock may have been set back
		g.since = now
	}
	g.active = active
	if active < own {
		return 0
	}
	extra := active - own
	if fullSpeed && load.Known() && load.Mean < lightLoad && now.Sub(g.since) >= settleTime {
		extra++
	}
	return min(extra, most)
}
