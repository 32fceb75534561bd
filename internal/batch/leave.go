package batch

import (
	"context"
	"time"
)

// watch ends the worker when its lease is lost, when somebody else wants its place, or
// when the run stops. The returned function stops watching.
func (w *worker) watch(ctx context.Context) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		recall, stopping := w.grant.Recall, ctx.Done()
		var grace <-chan time.Time
		for {
			select {
			case <-done:
				return
			case <-recall:
				recall = nil
				if !w.proc.Alive() {
					continue // the lease ended with the process
				}
				w.run.notify(EventRecalled, w.card.gpu, w.name, "the place is wanted back: it leaves after its batch")
				w.leave()
				continue
			case <-stopping:
				stopping = nil
				grace = time.After(w.run.opt.StopGrace)
				w.leave()
				continue
			case <-w.grant.Lost:
				w.run.notify(EventLost, w.card.gpu, w.name, "the lease is lost: other workers take its records")
			case <-grace:
			}
			w.withdrawn.Store(true)
			w.leave()
			w.proc.Kill()
			return
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// leave keeps the worker from taking more records. Any goroutine may call it.
func (w *worker) leave() {
	w.leaveOnce.Do(func() {
		w.run.mu.Lock()
		w.leaving = true
		w.run.mu.Unlock()
		close(w.left)
		w.run.changed.Broadcast()
	})
}
