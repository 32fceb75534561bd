package slowdown

import (
	"math"
	"time"
)

const (
	rise     = 0.25             // size of a step up
	pause    = 15 * time.Second // before each step up
	memory   = 5 * time.Minute  // a step down within this time after one up is a relapse
	relapses = 5                // most relapses that count; each doubles the pause
)

// Ramp is the share of full speed that leases on a device are held to. It follows a
// multiplier down at once. It goes up in steps, which come more slowly the sooner the
// last rise was followed by a fall, so that a device at a threshold does not swing. The
// zero Ramp is at full speed.
type Ramp struct {
	held     float64   // distance to full speed
	next     time.Time // no step up before
	risen    time.Time // time of the last step up
	relapses int
}

// Share returns the share of full speed.
func (r *Ramp) Share() float64 { return 1 - r.held }

// Follow moves the ramp towards a multiplier and returns its share.
func (r *Ramp) Follow(now time.Time, multiplier float64) float64 {
	multiplier = min(max(multiplier, 0), 1)
	share := r.Share()
	switch {
	case multiplier < share:
		if !r.risen.IsZero() && now.Sub(r.risen) < memory {
			r.relapses = min(r.relapses+1, relapses)
		}
		share, r.next = multiplier, now.Add(pause<<r.relapses)
	case multiplier > share && !now.Before(r.next):
		share = min(multiplier, share+rise)
		r.next, r.risen = now.Add(pause<<r.relapses), now
	case share == 1 && now.Sub(r.risen) >= memory:
		r.relapses = 0
	}
	r.held = math.Round((1-share)*100) / 100
	return r.Share()
}
