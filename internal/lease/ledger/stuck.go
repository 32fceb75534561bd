package ledger

import (
	"fmt"
	"sync/atomic"
	"time"
)

// stuckAfter is longer than any round of the clerk takes unless something hangs:
// in a round, the clerk applies a batch in memory and waits for the disk once or
// twice.
const stuckAfter = 10 * time.Second

// Stuck returns an error if the clerk hangs and so grants and releases nothing. It takes
// no lock.
func (l *Ledger) Stuck(now time.Time) error {
	if took := l.round.took(now); took > stuckAfter {
		return fmt.Errorf("the ledger has hung for %v: it grants and releases no leases", took.Round(time.Second))
	}
	return nil
}

// round records when the goroutine in the seat began its present round. Others
// read it without a lock, which a goroutine that is stuck may hold for ever.
type round struct {
	origin time.Time // rounds count from here

	begun atomic.Int64 // nanoseconds since origin; 0 if there is no round
}

// begin notes that a round begins.
func (r *round) begin() { r.begun.Store(max(int64(time.Since(r.origin)), 1)) }

// end notes that the round is over.
func (r *round) end() { r.begun.Store(0) }

// took returns how long the present round has taken, or 0 if there is none.
func (r *round) took(now time.Time) time.Duration {
	begun := r.begun.Load()
	if begun == 0 {
		return 0
	}
	return now.Sub(r.origin) - time.Duration(begun)
}
