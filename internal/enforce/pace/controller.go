package pace

import (
	"math"
	"time"
)

// The limits of a cycle. No process is ever stopped for longer than LongestPause,
// and each cycle lets it run for LeastRun, so that it can react to a signal even
// at a share of 0.
const (
	Usual        = time.Second             // length of a cycle
	LongestPause = 1900 * time.Millisecond // in one cycle
	LeastRun     = 50 * time.Millisecond   // in one cycle
	leastPause   = 30 * time.Millisecond   // a shorter pause is not worth two signals
	goodRun      = 300 * time.Millisecond  // long enough for the clock of a device to settle, and to be measured
)

// Cycle is one pause and one run: the processes are stopped for Pause, and then run for
// Run. A Pause of 0 stops nothing.
type Cycle struct{ Pause, Run time.Duration }

// Controller finds the cycles of one lease. The zero value lets it run all the time. Its
// methods must not be called at the same time.
//
// The share of the time that the processes run differs from the share that the lease
// gets. Queued kernels run on after their process was stopped. A device that was idle for
// a moment runs faster than its power limit allows in the long run, until the limit takes
// effect. A Controller measures both effects, and lengthens the pauses to make up for
// them. It has no clock: the caller reports pauses and measurements, and carries out the
// cycles.
type Controller struct {
	share  float64
	cycles int // planned so far
	pauses pauses
	use    use
	clock  clock
}

// Hold sets the share that the lease is to get, from 0 to 1. The Controller keeps what it
// has learned about the device.
func (c *Controller) Hold(share float64) {
	if share = min(max(share, 0), 1); share != c.share {
		c.share = share
		c.pauses.forget()
	}
}

// Paused records that the processes were stopped from one moment to another.
func (c *Controller) Paused(from, until time.Time) { c.pauses.add(from, until) }

// Used records the share of the time of its devices that the lease had from one moment to
// another, from 0 to 1. Paused must have been called for all pauses before until.
func (c *Controller) Used(from, until time.Time, share float64) {
	length := until.Sub(from)
	if length <= 0 || length > longestSlot || math.IsNaN(share) {
		return
	}
	c.use.add(length, func(tail time.Duration) float64 {
		return 1 - float64(c.pauses.within(from, until, tail))/float64(length)
	}, min(max(share, 0), 1))
}

// longestSlot is the longest stretch whose measurement says something about cycles.
const longestSlot = 5 * time.Second

// Clocked records the clock of a device at a moment, in MHz.
func (c *Controller) Clocked(at time.Time, mhz float64) {
	if since, runs := c.pauses.since(at); runs && mhz > 0 && !math.IsInf(mhz, 0) && !math.IsNaN(mhz) {
		c.clock.add(since, mhz)
	}
}

// Next returns the next cycle.
func (c *Controller) Next() Cycle {
	wanted := c.share / c.clock.gain() // share of the time, including queued work
	if c.share >= 1 || wanted >= 1 {
		return Cycle{Run: Usual}
	}
	queued, _ := c.use.tail()
	tail := queued.Seconds()
	whole := Usual.Seconds()
	if wanted*whole-tail < goodRun.Seconds() {
		whole = (goodRun.Seconds() + tail) / wanted // +Inf at a share of 0
	}
	if off := (1-wanted)*whole + tail; off < leastPause.Seconds() {
		whole = (leastPause.Seconds() - tail) / (1 - wanted)
	}
	whole = min(whole*c.uneven(), (LongestPause + LeastRun).Seconds())
	run := min(max(wanted*whole-tail, LeastRun.Seconds()), whole)
	pause := min(seconds(whole-run), LongestPause)
	if pause < leastPause/2 {
		pause = 0
	}
	c.cycles++
	return Cycle{Pause: pause, Run: seconds(run)}
}

// uneven makes the lengths of cycles differ by up to a quarter, so that they do
// not keep step with the stretches that drivers measure over.
func (c *Controller) uneven() float64 {
	const golden = 0.6180339887498949
	_, part := math.Modf(float64(c.cycles) * golden)
	return 1 + 0.5*(part-0.5)
}

// Measure is the share that a lease really gets.
type Measure struct {
	Share float64 // of what it would get without pauses
	// Known reports whether the driver measured how much of its time the device worked
	// for the lease. If not, Share is the share of the time that the lease runs, at the
	// speed that the device has then.
	Known bool
}

// Measured returns what the lease got in the last half minute or so.
func (c *Controller) Measured() Measure {
	tail, known := c.use.tail()
	return Measure{Share: min(1, c.pauses.worked(tail)*c.clock.gain()), Known: known}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
