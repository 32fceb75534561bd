package when_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/internal/when"
)

func TestClockNoticesThatItIsSet(t *testing.T) {
	wall, passed := time.Unix(1_000_000, 0), 5*time.Hour
	c := when.Clock{Wall: func() time.Time { return wall }, Passed: func() time.Duration { return passed }}
	for i, step := range []struct{ wall, passed, set time.Duration }{
		{0, 0, 0}, // the first look
		{time.Hour, time.Hour, 0},
		{-time.Hour, time.Minute, -time.Hour - time.Minute},
		{time.Minute, time.Minute, 0},
		{2 * time.Hour, time.Hour, time.Hour},
		{600 * time.Millisecond, 0, 0}, // less than counts
		{600 * time.Millisecond, 0, 1200 * time.Millisecond},
		{0, 0, 0},
		{2 * time.Hour, 2 * time.Hour, 0}, // the machine slept
	} {
		wall, passed = wall.Add(step.wall), passed+step.passed
		if got := c.Set(); got != step.set {
			t.Errorf("%d: it was set by %v, want %v", i, got, step.set)
		}
		if got := c.Now(); !got.Equal(wall) {
			t.Errorf("%d: it is %v, want %v", i, got, wall)
		}
	}
}

// The zero Clock goes by the clocks of package time.
func TestZeroClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c when.Clock
		for range 3 {
			if set := c.Set(); set != 0 {
				t.Errorf("it was set by %v", set)
			}
			if now := c.Now(); now != when.Now() {
				t.Errorf("it is %v, want %v", now, when.Now())
			}
			time.Sleep(time.Hour)
		}
	})
}
