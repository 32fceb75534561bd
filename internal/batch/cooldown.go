package batch

import (
	"time"

	"github.com/berth-gpu/berth/internal/batch/chunk"
)

// coolDown lets a GPU cool down if it should not work at full speed: after each second of
// work it waits until the share of work equals the multiplier of the GPU. It also waits
// after memory ran out.
func (w *worker) coolDown() {
	const pollInterval = 250 * time.Millisecond
	var waited time.Duration
	for {
		speed := w.grant.speed()
		w.run.mu.Lock()
		w.card.speed = speed
		w.run.mu.Unlock()
		wait := pollInterval
		if speed > 0 {
			due := time.Duration(float64(w.took)*(1/speed-1)) + chunk.Backoff(w.run.opt.Backoff, w.ooms)
			wait = min(due-waited, pollInterval)
		}
		if wait <= 0 || len(w.flight) > 0 {
			return
		}
		select {
		case <-time.After(wait):
			waited += wait
		case <-w.left:
			return
		}
	}
}
