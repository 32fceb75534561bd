package when

import "time"

// Clock is the clock of the wall for whoever keeps times by it. It notices when the clock is
// set, so that the keeper can move its times by as much: then nothing is due sooner or later
// than it was, and nobody is older or younger. The zero value is ready to use.
type Clock struct {
	Wall func() time.Time // nil means time.Now
	// Passed returns how much time has passed since some moment, with the time that the
	// machine slept, which the monotonic clock of package time leaves out. Nil means that it
	// never sleeps.
	Passed func() time.Duration

	anchor time.Time // of the monotonic clock
	awake  time.Time // what the wall would have shown when the monotonic clock began
	start  time.Time // what the wall would have shown when no time had passed
}

// least is the smallest step that counts. Smaller ones count when they have added up.
const least = time.Second

// Now returns the present by the wall, without a monotonic reading.
func (c *Clock) Now() time.Time {
	if c.Wall == nil {
		return Now()
	}
	return Stored(c.Wall())
}

// Set returns by how much the clock was set since the last call; zero if it was not. It is
// for one goroutine at a time.
func (c *Clock) Set() time.Duration {
	wall, now := c.Now(), time.Now()
	if c.anchor.IsZero() {
		c.anchor = now
	}
	passed := now.Sub(c.anchor)
	awake := wall.Add(-passed)
	if awake.Sub(c.awake).Abs() < least {
		return 0
	}
	c.awake = awake // the clock was set, or the machine has slept
	if c.Passed != nil {
		passed = c.Passed()
	}
	before := c.start
	start := wall.Add(-passed)
	by := start.Sub(before)
	if by.Abs() < least {
		return 0
	}
	if c.start = start; before.IsZero() {
		return 0
	}
	return by
}
