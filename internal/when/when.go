// Package when makes the times that berth stores, compares and sorts.
//
// Go's time.Now carries two readings: that of the wall and a monotonic one. Two times
// compare by the second if both have it, and by the first otherwise, so that an order of
// times from memory and from files is no order once the clock has been set. A time from
// this package has the reading of the wall alone.
package when

import (
	"context"
	"time"
)

// Now returns the present by the clock of the wall. Whatever is written down, compared with
// what was, or sorted, takes its time from here.
func Now() time.Time { return Stored(time.Now()) }

// Stored returns t as it is after it was written and read again: without a monotonic
// reading.
func Stored(t time.Time) time.Time { return t.Round(0) }

// Of returns a time that time.Now returned in this process as the clock shows it now, to
// whatever that was set since.
func Of(t time.Time) time.Time { return Now().Add(-time.Since(t)) }

// Pause waits, and reports whether it waited to the end, before ctx ended.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
