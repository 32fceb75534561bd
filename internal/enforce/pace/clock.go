package pace

import "time"

// clock learns how much faster a device is at the beginning of a run than later. A device
// that rested begins at its highest clock, and its power limit slows it down within some
// tenths of a second. Until then, programs get more done on it.
type clock struct {
	all, settled average
}

// settles is how long after a pause the clock of a device is back to what it is without
// pauses.
const settles = 200 * time.Millisecond

// The limits of the gain.
const (
	leastGain = 0.8
	mostGain  = 1.4
)

// add records the clock of a device at the moment when the processes had run for the time
// ran.
func (c *clock) add(ran time.Duration, mhz float64) {
	if c.settled.add(ran >= settles, mhz); ran < time.Minute {
		c.all.add(true, mhz)
	}
}

// gain returns how much more a program gets done while it runs than it does without
// pauses, judged by the clock.
func (c *clock) gain() float64 {
	if c.all.n < enough || c.settled.n < 3 {
		return 1
	}
	return min(max(c.all.mean()/c.settled.mean(), leastGain), mostGain)
}

// average is a mean over the last few hundred values.
type average struct{ sum, n float64 }

func (a *average) add(counts bool, value float64) {
	const fade = 0.995
	if a.sum, a.n = a.sum*fade, a.n*fade; counts {
		a.sum, a.n = a.sum+value, a.n+1
	}
}

func (a *average) mean() float64 { return a.sum / a.n }
