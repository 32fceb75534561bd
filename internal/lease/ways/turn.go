package ways

import (
	"sync/atomic"
	"time"
)

// Turn records when a goroutine began its present turn. Others read it without a
// lock, which a goroutine that is stuck may hold for ever.
type Turn struct {
	Origin time.Time // the turns count from here

	begun atomic.Int64 // nanoseconds; 0: there is no turn
}

// Begin notes that a turn begins.
func (t *Turn) Begin() { t.begun.Store(max(int64(time.Since(t.Origin)), 1)) }

// End notes that the turn is over.
func (t *Turn) End() { t.begun.Store(0) }

// Took returns how long the present turn has taken; 0 if there is none.
func (t *Turn) Took(now time.Time) time.Duration {
	begun := t.begun.Load()
	if begun == 0 {
		return 0
	}
	return now.Sub(t.Origin) - time.Duration(begun)
}
