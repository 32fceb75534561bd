package pace

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// card plays a device on which one program is paced, in steps of two
// milliseconds.
type card struct {
	now        time.Time
	random     *rand.Rand
	tail       time.Duration // for which the device works on after a stop
	slot       time.Duration // that the driver measures over
	share      float64       // of the device that the program has when it runs
	whole      bool          // the driver says only who had a slot, not how much of it each had
	boost      float64       // of the clock after a pause
	worked     float64       // seconds of the device, at its settled clock
	had        float64       // in the present slot, seconds
	began      time.Time     // of the present slot
	stoppedAt  time.Time
	runningFor time.Duration
	stopped    bool
	quiet      bool // the driver measures nothing
}

func (d *card) step(c *Controller, pending *[]func()) {
	const tick = 2 * time.Millisecond
	busy, speed := 0.0, 1.0
	if !d.stopped || d.now.Sub(d.stoppedAt) < d.tail && !d.stoppedAt.IsZero() {
		busy = d.share
	}
	if !d.stopped {
		d.runningFor += tick
		if d.boost > 0 && d.runningFor < 120*time.Millisecond {
			speed = 1 + d.boost
		}
	}
	d.worked += busy * speed * tick.Seconds()
	d.had += busy * tick.Seconds()
	d.now = d.now.Add(tick)
	if d.now.UnixMilli()%50 == 0 && !d.stopped && d.boost > 0 {
		at, mhz := d.now, 1470*speed
		*pending = append(*pending, func() { c.Clocked(at, mhz) })
	}
	if d.now.Sub(d.began) >= d.slot {
		part := d.had / d.slot.Seconds()
		if d.whole {
			if d.random.Float64() < part {
				part = 1
			} else {
				part = 0
			}
		}
		from, until := d.began, d.now
		if !d.quiet {
			*pending = append(*pending, func() { c.Used(from, until, part) })
		}
		d.began, d.had = d.now, 0
	}
}

// play lets the device run under a controller, and returns what share of its
// work the program got done in the last part of the time.
func (d *card) play(t interface{ Fatalf(string, ...any) }, c *Controller, whole, counted time.Duration) float64 {
	start := d.now
	before, from := 0.0, d.now
	var pending []func()
	for d.now.Sub(start) < whole {
		if d.now.Sub(start) >= whole-counted && from == start {
			before, from = d.worked, d.now
		}
		cycle := c.Next()
		if cycle.Pause > LongestPause || cycle.Pause < 0 || cycle.Run < LeastRun || cycle.Pause > 0 && cycle.Run > 3*time.Second {
			t.Fatalf("the cycle is %+v", cycle)
		}
		if cycle.Pause > 0 {
			stopped := d.now
			d.stopped, d.stoppedAt = true, d.now
			for end := d.now.Add(cycle.Pause); d.now.Before(end); {
				d.step(c, &pending)
			}
			d.stopped, d.runningFor = false, 0
			c.Paused(stopped, d.now)
		}
		for end := d.now.Add(cycle.Run); d.now.Before(end); {
			d.step(c, &pending)
		}
		for _, tell := range pending {
			tell()
		}
		pending = pending[:0]
	}
	return (d.worked - before) / (d.now.Sub(from).Seconds() * d.share)
}

func newCard() *card {
	at := time.Unix(1_800_000_000, 0)
	return &card{now: at, began: at, random: rand.New(rand.NewPCG(1, 2)), slot: 200 * time.Millisecond, share: 1}
}

// Whatever is queued, however long the driver measures and however fast a rested
// device is, a program alone on a device gets its share.
func TestAProgramGetsItsShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newCard()
		d.tail = time.Duration(rapid.IntRange(0, 300).Draw(t, "tail ms")) * time.Millisecond
		d.slot = time.Duration(rapid.SampledFrom([]int{100, 167, 200, 500, 1000}).Draw(t, "slot ms")) * time.Millisecond
		d.share = rapid.Float64Range(0.2, 1).Draw(t, "load")
		d.boost = rapid.SampledFrom([]float64{0, 0.35}).Draw(t, "boost")
		share := rapid.Float64Range(0.05, 0.85).Draw(t, "share")
		var c Controller
		c.Hold(share)
		got := d.play(t, &c, time.Minute, 30*time.Second)
		least := (LeastRun + d.tail).Seconds() / (LongestPause + LeastRun).Seconds() * (1 + d.boost)
		if math.Abs(got-share) > 0.05 && (share >= least+0.02 || got > least+0.05) {
			t.Fatalf("held at %.2f, it got %.3f (measured %+v)", share, got, c.Measured())
		}
		if m := c.Measured(); share > least+0.1 && (math.Abs(m.Share-got) > 0.12 || !m.Known) {
			t.Fatalf("it got %.3f, and the controller measures %+v", got, m)
		}
	})
}

// Beside neighbours the driver says only who had a stretch of time: that is
// noise, and it must not make the share swing.
func TestAProgramGetsItsShareBesideNeighbours(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newCard()
		d.random = rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		d.whole, d.share = true, rapid.Float64Range(0.3, 0.7).Draw(t, "load")
		d.tail = time.Duration(rapid.IntRange(0, 20).Draw(t, "tail ms")) * time.Millisecond
		share := rapid.Float64Range(0.2, 0.9).Draw(t, "share")
		var c Controller
		c.Hold(share)
		if got := d.play(t, &c, time.Minute, 20*time.Second); math.Abs(got-share) > 0.1 {
			t.Fatalf("held at %.2f, it got %.3f", share, got)
		}
	})
}

// A neighbour comes and goes: the share is one of what the program would have
// then.
func TestNeighboursComeAndGo(t *testing.T) {
	d := newCard()
	d.tail = 100 * time.Millisecond
	var c Controller
	c.Hold(0.5)
	for _, load := range []float64{1, 0.5, 0.9, 0.3} {
		d.share = load
		if got := d.play(t, &c, 90*time.Second, 30*time.Second); math.Abs(got-0.5) > 0.05 {
			t.Errorf("with %.1f of the device, it got %.3f of that", load, got)
		}
	}
}

// Without a driver that measures, the share is that of the time.
func TestWithoutAMeter(t *testing.T) {
	for _, share := range []float64{0.05, 0.25, 0.5, 0.8, 0.95} {
		d := newCard()
		d.quiet = true
		var c Controller
		c.Hold(share)
		if got := d.play(t, &c, time.Minute, 30*time.Second); math.Abs(got-share) > 0.03 || c.Measured().Known {
			t.Errorf("held at %.2f, it got %.3f, %+v", share, got, c.Measured())
		}
	}
}

// A share of 0 still lets a program react, and one of 1 stops nothing.
func TestExtremes(t *testing.T) {
	var c Controller
	c.Hold(0)
	for range 100 {
		if cycle := c.Next(); cycle.Run < LeastRun || cycle.Pause > LongestPause || cycle.Pause < LongestPause-LeastRun {
			t.Fatalf("at a share of 0 the cycle is %+v", cycle)
		}
	}
	c.Hold(1)
	if cycle := c.Next(); cycle.Pause != 0 {
		t.Errorf("at a share of 1 the cycle is %+v", cycle)
	}
}

// Whatever is said, no cycle stops a process for longer than the bound, and all
// of them let it run.
func TestNoTurnIsTooLong(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Controller
		at := time.Unix(1_800_000_000, 0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			moment := func(name string) time.Time {
				return at.Add(time.Duration(rapid.IntRange(-5000, 5000).Draw(t, name)) * time.Millisecond)
			}
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				c.Hold(rapid.Float64().Draw(t, "share"))
			case 1:
				c.Paused(moment("from"), moment("until"))
			case 2:
				c.Used(moment("from"), moment("until"), rapid.Float64().Draw(t, "used"))
			case 3:
				c.Clocked(moment("at"), rapid.Float64().Draw(t, "mhz"))
			}
			at = at.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "later")) * time.Millisecond)
			cycle := c.Next()
			if cycle.Pause < 0 || cycle.Pause > LongestPause || cycle.Run < LeastRun || cycle.Run > 3*time.Second {
				t.Fatalf("the cycle is %+v", cycle)
			}
			if m := c.Measured(); math.IsNaN(m.Share) || m.Share < 0 || m.Share > 1 {
				t.Fatalf("it measures %+v", m)
			}
		}
	})
}
