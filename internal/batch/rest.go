package batch

import (
	"time"

	"github.com/berth-gpu/berth/internal/batch/chunk"
)

// rest lets a GPU that should not be worked at full speed cool down: for each
// second at work, the time that brings the share down to its multiplier. After
// memory ran out it waits too.
func (w *worker) rest() {
	const look = 250 * time.Millisecond
	var rested time.Duration
	for {
		speed := w.grant.speed()
		w.run.mu.Lock()
		w.card.speed = speed
		w.run.mu.Unlock()
		wait := look
		if speed > 0 {
			due := time.Duration(float64(w.took)*(1/speed-1)) + chunk.Backoff(w.run.opt.Backoff, w.ooms)
			wait = min(due-rested, look)
		}
		if wait <= 0 || len(w.flight) > 0 {
			return
		}
		select {
		case <-time.After(wait):
			rested += wait
		case <-w.left:
			return
		}
	}
}
