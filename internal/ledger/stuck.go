package ledger

import (
	"fmt"
	"sync/atomic"
	"time"
)

// stuckAfter is longer than any turn of the clerk takes unless something hangs:
// in a turn, the clerk applies a batch in memory and waits for the disk once or
// twice.
const stuckAfter = 10 * time.Second

// turn records when the clerk began its present turn. It is read without a lock.
type turn struct {
	origin time.Time    // begun counts from here
	begun  atomic.Int64 // nanoseconds; 0: the clerk waits for something to do
}

// begin notes that the clerk begins a turn.
func (t *turn) begin() { t.begun.Store(max(int64(time.Since(t.origin)), 1)) }

// end notes that the turn is over.
func (t *turn) end() { t.begun.Store(0) }

// took returns how long the present turn has taken; 0 if there is none.
func (t *turn) took(now time.Time) time.Duration {
	begun := t.begun.Load()
	if begun == 0 {
		return 0
	}
	return now.Sub(t.origin) - time.Duration(begun)
}

// Stuck returns an error if the clerk hangs and so grants and releases nothing;
// nil if it does not. It takes no lock.
func (l *Ledger) Stuck(now time.Time) error {
	if took := l.turn.took(now); took > stuckAfter {
		return fmt.Errorf("the ledger has hung for %v: it grants and releases no leases", took.Round(time.Second))
	}
	return nil
}
