package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-gpu/berth/internal/batch/chunk"
)

// supervise asks for places and puts workers on them, as long as records wait
// and no worker takes them. It returns when the run stops.
func (r *Run) supervise(ctx context.Context) {
	refusals := 0
	for r.awaitNeed() {
		r.mu.Lock()
		workers := r.staff.workers
		req := WorkerRequest{Avoid: slices.Clone(r.staff.avoid), Failures: r.staff.failures()}
		r.mu.Unlock()
		grant, err := r.opt.Leases.Acquire(ctx, req)
		if ctx.Err() != nil {
			if err == nil {
				grant.GiveBack()
			}
			return
		}
		if err == nil && slices.Contains(req.Avoid, grant.GPU.ID()) {
			grant.GiveBack()
			err = fmt.Errorf("%w: only GPUs on which workers kept failing are left", ErrRefused)
		}
		if err == nil {
			refusals = 0
			r.addWorker(ctx, &grant)
			continue
		}
		refusals++
		if !r.awaitRetry(ctx, err, refusals, workers) {
			return
		}
	}
}

// awaitNeed waits until the run wants one more worker. It returns false when
// the run stops.
func (r *Run) awaitNeed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if r.stopping {
			return false
		}
		if r.needsWorker() {
			return true
		}
		r.sated = true
		r.changed.Wait()
	}
}

// needsWorker reports whether the run wants one more worker. Workers that are still
// loading count too: the run wants no more workers than there are records. The caller
// holds the lock.
func (r *Run) needsWorker() bool {
	if r.staff.ahead && r.staff.workers > 0 {
		return false
	}
	return r.stock.primed && r.staff.idle == 0 && (r.opt.Workers == 0 || r.staff.workers < r.opt.Workers) && r.stock.waiting() > r.staff.loading()
}

// wakeSupervisor wakes the supervisor if it wants one more worker now. Whoever adds a
// record, takes one, or is ready and takes none calls it: each may be what it waits for.
// The caller holds the lock.
func (r *Run) wakeSupervisor() {
	if r.sated && r.needsWorker() {
		r.sated = false
		r.changed.Broadcast()
	}
}

// awaitRetry waits after a request for a place failed, and reports whether to ask again.
// workers is the number of workers at the time of the request. After ErrRefused,
// awaitRetry waits until one of them leaves; if there were none, it ends the run.
func (r *Run) awaitRetry(ctx context.Context, err error, refusals, workers int) bool {
	if errors.Is(err, ErrRefused) {
		r.mu.Lock()
		for r.staff.workers >= workers && workers > 0 && !r.stopping {
			r.changed.Wait()
		}
		if workers > 0 {
			r.mu.Unlock()
			return true // a worker left: its place may be free
		}
		if r.staff.lastFailure != "" {
			err = fmt.Errorf("%w; the last worker failed: %s", err, r.staff.lastFailure)
		}
		r.mu.Unlock()
		r.fail(err)
		return false
	}
	r.notify(EventWaiting, GPU{}, "", "no place for a worker: %v", err)
	return r.pause(ctx.Done(), chunk.Backoff(r.opt.Backoff, refusals))
}

// pause waits for d, unless done is closed first.
func (r *Run) pause(done <-chan struct{}, d time.Duration) bool {
	select {
	case <-done:
		return false
	case <-time.After(d):
		return true
	}
}

// addWorker starts a goroutine that runs a worker on a place and then gives the
// place back.
func (r *Run) addWorker(ctx context.Context, g *Grant) {
	r.mu.Lock()
	number, c := r.staff.add(g)
	if r.staff.ahead {
		time.AfterFunc(r.opt.HeadStart, r.endHeadStart)
	}
	r.mu.Unlock()
	r.hosts.Go(func() {
		r.host(ctx, fmt.Sprintf("worker %d", number), g, c)
		r.mu.Lock()
		delete(r.staff.numbers, number)
		r.mu.Unlock()
		g.GiveBack()
		r.mu.Lock()
		r.staff.remove(c)
		r.mu.Unlock()
		r.changed.Broadcast()
	})
}

// endHeadStart lets other workers come beside the first one.
func (r *Run) endHeadStart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.staff.ahead = false
	r.wakeSupervisor()
}

// host runs a worker on a place. After a failure it keeps the place for a
// while, longer with each failure, and then gives it back so that the run can
// ask for it again.
func (r *Run) host(ctx context.Context, name string, g *Grant, c *card) {
	err := r.runWorker(ctx, name, g, c)
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
	again := !r.stopping && (!r.input.eof || r.stock.waiting() > 0)
	if again {
		r.tally.restarts++
		c.restarts++
	}
	r.mu.Unlock()
	if again && g.Again != nil {
		g.Again()
	}
}

// workerFailed counts and reports the failure of a worker. It returns how long to wait
// before the next worker starts, or a negative time if none starts.
func (r *Run) workerFailed(name string, c *card, err error) time.Duration {
	r.mu.Lock()
	again := r.staff.lastFailure == err.Error()
	r.mu.Unlock()
	if again { // its words stand a few lines above
		r.notify(EventFailed, c.gpu, name, "failed with the same error as the worker before it")
	} else {
		r.notify(EventFailed, c.gpu, name, "%v", err)
	}
	r.mu.Lock()
	giveUp := r.staff.failed(c, err, r.opt.Restarts)
	r.staff.ahead = false // the others may be better off
	r.wakeSupervisor()
	neverReady := r.staff.neverReady()
	wait := chunk.Backoff(r.opt.Backoff, c.failures)
	if c.givenUp {
		wait = -1
	}
	r.mu.Unlock()
	if neverReady && !r.opt.Expecting() {
		r.fail(fmt.Errorf("no worker can be started: %w", err))
		return -1
	}
	if giveUp {
		r.notify(EventGivenUp, c.gpu, name, "given up after %d workers in a row failed without an outcome", r.opt.Restarts)
	}
	return wait
}
