package when

import "time"

// Clock is the clock of the wall for whoever keeps times by it. It notices when the clock is
// set, so that the keeper can move its times by as much: then nothing is due sooner or later
// than it was, and nobody is older or younger. The zero value is ready to use.
type Clock struct {
	// Read returns the present by the wall, and how much time has passed since some moment,
	// which goes on whatever becomes of the wall. Nil means the clocks of package time; what
	// has passed by those stands still while the machine sleeps.
	Read func() (wall time.Time, passed time.Duration)

	anchor time.Time // from which time passes if Read is nil
	start  time.Time // what the wall would have shown when no time had passed; zero before the first call of Set
}

// least is the smallest step that counts. Reading two clocks takes a moment.
const least = time.Second

// Now returns the present by the wall, without a monotonic reading.
func (c *Clock) Now() time.Time {
	if c.Read == nil {
		return Now()
	}
	wall, _ := c.Read()
	return Stored(wall)
}

// Set returns by how much the clock was set since the last call; zero if it was not. It is
// for one goroutine at a time.
func (c *Clock) Set() time.Duration {
	var wall time.Time
	var passed time.Duration
	if c.Read != nil {
		wall, passed = c.Read()
	} else {
		wall = time.Now()
		if c.anchor.IsZero() {
			c.anchor = wall
		}
		passed = wall.Sub(c.anchor)
	}
	start := Stored(wall).Add(-passed)
	by := start.Sub(c.start)
	switch {
	case c.start.IsZero():
		by = 0
	case by.Abs() < least:
		return 0 // small steps count when they have added up
	}
	c.start = start
	return by
}
