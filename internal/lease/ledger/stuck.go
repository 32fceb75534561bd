package ledger

import (
	"fmt"
	"time"
)

// stuckAfter is longer than any turn of the clerk takes unless something hangs:
// in a turn, the clerk applies a batch in memory and waits for the disk once or
// twice.
const stuckAfter = 10 * time.Second

// Stuck returns an error if the clerk hangs and so grants and releases nothing;
// nil if it does not. It takes no lock.
func (l *Ledger) Stuck(now time.Time) error {
	if took := l.turn.Took(now); took > stuckAfter {
		return fmt.Errorf("the ledger has hung for %v: it grants and releases no leases", took.Round(time.Second))
	}
	return nil
}
