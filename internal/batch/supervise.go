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
		workers := r.workers
		req := WorkerRequest{Avoid: slices.Clone(r.avoid), Failures: r.failures()}
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
			r.hire(ctx, &grant)
			continue
		}
		refusals++
		if !r.bearWith(ctx, err, refusals, workers) {
			return
		}
	}
}

// number is the lowest that no worker has: one that follows another is called
// the same. The lock is held.
func (r *Run) number() int {
	n := 1
	for r.numbers[n] {
		n++
	}
	return n
}

// failures are the workers that failed in a row, by GPU. The lock is held.
func (r *Run) failures() map[string]int {
	counts := make(map[string]int, len(r.cards))
	for uuid, c := range r.cards {
		counts[uuid] = c.failures
	}
	return counts
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

// bearWith waits a while after a place could not be had, when there were so
// many workers. Without any, a refusal that will not change ends the run.
func (r *Run) bearWith(ctx context.Context, err error, refusals, workers int) bool {
	if errors.Is(err, ErrRefused) {
		r.mu.Lock()
		for r.workers >= workers && workers > 0 && !r.stopping {
			r.changed.Wait()
		}
		if workers > 0 {
			r.mu.Unlock()
			return true // one has left: its place may be had again
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
func (r *Run) hire(ctx context.Context, g *Grant) {
	r.mu.Lock()
	number := r.number()
	r.numbers[number] = true
	c := r.cards[g.GPU.UUID]
	if c == nil {
		c = &card{gpu: g.GPU, speed: g.speed(), pace: 1, latency: newHistogram()}
		r.cards[g.GPU.UUID] = c
	}
	c.workers++
	c.most = max(c.most, c.workers)
	r.workers++
	r.mu.Unlock()
	r.hosts.Go(func() {
		r.host(ctx, fmt.Sprintf("worker %d", number), g, c)
		r.mu.Lock()
		delete(r.numbers, number)
		r.mu.Unlock()
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

// host lets a worker work on a place. Where it failed, the place is kept for a
// while, longer and longer while they fail: then it can be asked for again.
func (r *Run) host(ctx context.Context, name string, g *Grant, c *card) {
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
	if !r.pause(ctx.Done(), wait) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopping && (!r.eof || r.waiting() > 0) {
		r.restarts++
		c.restarts++
	}
}

// unreadyLimit is how often each worker of every GPU may fail before any was
// ever ready: the command is wrong, and no patience will help.
const unreadyLimit = 3

// hopeless reports whether no worker was ever ready, and every GPU that could
// be had has had its tries: on one that has not, a worker may be loading. Those
// with the fewest failures are had first, so none is left out. The lock is held.
func (r *Run) hopeless() bool {
	for _, c := range r.cards {
		if c.failures < unreadyLimit*c.most {
			return false
		}
	}
	return !r.everReady
}

// workerFailed says how long to wait before the next one is started; below
// zero: none is.
func (r *Run) workerFailed(name string, c *card, err error) time.Duration {
	r.notify(EventFailed, c.gpu, name, "%v", err)
	r.mu.Lock()
	c.failures++
	r.lastFailure = err.Error()
	hopeless := r.hopeless()
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
