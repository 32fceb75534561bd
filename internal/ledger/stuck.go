package ledger

import (
	"fmt"
	"sync/atomic"
	"time"
)

// stuckAfter is how long a turn of the clerk takes at most, if nothing hangs:
// it applies a batch in memory and waits for the disk once or twice.
const stuckAfter = 10 * time.Second

// turn is what the clerk is at. It is read without a lock.
type turn struct {
	origin time.Time    // begun counts from here
	begun  atomic.Int64 // nanoseconds; 0: the clerk waits for something to do
}

// begin notes that the clerk has something to do.
func (t *turn) begin() { t.begun.Store(max(int64(time.Since(t.origin)), 1)) }

// end notes that the clerk has done it.
func (t *turn) end() { t.begun.Store(0) }

// took returns how long the clerk is at it; 0 if it has nothing to do.
func (t *turn) took(now time.Time) time.Duration {
	begun := t.begun.Load()
	if begun == 0 {
		return 0
	}
	return now.Sub(t.origin) - time.Duration(begun)
}

// Stuck returns an error if the clerk hangs, so that nothing is granted or
// released any more; nil if it does not. It takes no lock.
func (l *Ledger) Stuck(now time.Time) error {
	if took := l.turn.took(now); took > stuckAfter {
		return fmt.Errorf("the ledger hangs for %v: no lease is granted or released", took.Round(time.Second))
	}
	return nil
}
