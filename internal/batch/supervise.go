package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-gpu/berth/internal/batch/chunk"
)

// supervise asks for places and puts workers on them, as long as there is work
// that nobody takes. It returns when the run stops.
func (r *Run) supervise(ctx context.Context) {
	refusals := 0
	for r.awaitNeed() {
		r.mu.Lock()
		r.hired++
		req := WorkerRequest{Name: fmt.Sprintf("worker %d", r.hired), Avoid: slices.Clone(r.avoid)}
		r.mu.Unlock()
		grant, err := r.opt.Leases.Acquire(ctx, req)
		if ctx.Err() != nil {
			if err == nil {
				r.release(&grant)
			}
			return
		}
		if err == nil && slices.Contains(req.Avoid, grant.GPU.UUID) {
			r.release(&grant)
			err = fmt.Errorf("%w: only GPUs on which workers kept failing are left", ErrRefused)
		}
		if err == nil {
			refusals = 0
			r.hire(ctx, req.Name, &grant)
			continue
		}
		refusals++
		if !r.bearWith(ctx, err, refusals) {
			return
		}
	}
}

// awaitNeed waits until one more worker is wanted; false: the run stops.
func (r *Run) awaitNeed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if r.stopping {
			return false
		}
		// Workers on their way count as takers: nobody is asked for more of
		// them than there are records.
		if r.primed && r.idle == 0 && (r.opt.Workers == 0 || r.workers < r.opt.Workers) && r.waiting() > r.arriving() {
			return true
		}
		r.changed.Wait()
	}
}

// arriving is how many workers have a place and are not ready yet. The lock is
// held.
func (r *Run) arriving() int {
	n := r.workers
	for _, c := range r.cards {
		n -= c.ready
	}
	return n
}

// bearWith waits a while after a place could not be had. Without any worker, a
// refusal that will not change ends the run.
func (r *Run) bearWith(ctx context.Context, err error, refusals int) bool {
	if errors.Is(err, ErrRefused) {
		r.mu.Lock()
		for r.workers > 0 && !r.stopping {
			r.changed.Wait()
		}
		if r.lastFailure != "" {
			err = fmt.Errorf("%w; the last worker failed: %s", err, r.lastFailure)
		}
		r.mu.Unlock()
		r.fail(err)
		return false
	}
	r.notify(EventWaiting, GPU{}, "", "no place for a worker: %v", err)
	return r.pause(ctx.Done(), chunk.Backoff(r.opt.Backoff, refusals))
}

// pause waits, unless done is closed first.
func (r *Run) pause(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return false
	case <-timer.C:
		return true
	}
}

// hire puts a worker on a place.
func (r *Run) hire(ctx context.Context, name string, g *Grant) {
	r.mu.Lock()
	c := r.cards[g.GPU.UUID]
	if c == nil {
		c = &card{gpu: g.GPU, speed: g.speed(), pace: 1, latency: newHistogram()}
		r.cards[g.GPU.UUID] = c
	}
	c.workers++
	r.workers++
	r.mu.Unlock()
	r.hosts.Go(func() {
		r.host(ctx, name, g, c)
		r.release(g)
		r.mu.Lock()
		c.workers--
		r.workers--
		r.mu.Unlock()
		r.changed.Broadcast()
	})
}

func (r *Run) release(g *Grant) {
	if g.Release != nil {
		g.Release()
	}
}

// host keeps a worker on a place: one process after the other, with longer and
// longer waits while they fail.
func (r *Run) host(ctx context.Context, name string, g *Grant, c *card) {
	for {
		err := r.employ(ctx, name, g, c)
		if err == nil {
			return
		}
		wait := time.Duration(0)
		if !errors.Is(err, errBye) {
			if wait = r.workerFailed(name, c, err); wait < 0 {
				return
			}
		}
		if !r.mayRestart(ctx, g, wait) {
			return
		}
		r.mu.Lock()
		r.restarts++
		c.restarts++
		r.mu.Unlock()
	}
}

// unreadyLimit is how many workers may fail before any was ever ready: the
// command is wrong, and no patience will help.
const unreadyLimit = 3

// workerFailed says how long to wait before the next one is started; below
// zero: none is.
func (r *Run) workerFailed(name string, c *card, err error) time.Duration {
	r.notify(EventFailed, c.gpu, name, "%v", err)
	r.mu.Lock()
	c.failures++
	r.lastFailure = err.Error()
	if !r.everReady {
		r.unready++
	}
	hopeless := !r.everReady && r.unready >= unreadyLimit
	giveUp := c.failures >= r.opt.Restarts && !c.givenUp
	if giveUp {
		c.givenUp = true
		r.avoid = append(r.avoid, c.gpu.UUID)
	}
	wait := chunk.Backoff(r.opt.Backoff, c.failures)
	if c.givenUp {
		wait = -1
	}
	r.mu.Unlock()
	if hopeless {
		r.fail(fmt.Errorf("no worker can be started: %w", err))
		return -1
	}
	if giveUp {
		r.notify(EventGivenUp, c.gpu, name, "given up after %d workers in a row failed without an outcome", r.opt.Restarts)
	}
	return wait
}

// mayRestart waits, and reports whether the place is still ours and needed.
func (r *Run) mayRestart(ctx context.Context, g *Grant, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-g.Lost:
		return false
	case <-g.Recall:
		return false
	case <-timer.C:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.stopping && (!r.eof || r.waiting() > 0)
}
