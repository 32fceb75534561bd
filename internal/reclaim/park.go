package reclaim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/ledger"
	"github.com/berth-gpu/berth/internal/words"
)

// park parks the leases that allow it and do not use their devices. It tells their
// holders first, and looks again after the grace: a lease that is used by then
// keeps its device.
func (c *climb) park(ctx context.Context) (done, left []api.RungStep) {
	mine, others := c.leases()
	left = othersLeft(others)
	if c.Parker == nil {
		if len(mine) > 0 {
			left = append(left, api.RungStep{Text: "this daemon parks nothing"})
		}
		return nil, left
	}
	var idle []ledger.Held
	for _, held := range mine {
		uses := measured(held)
		since, why := c.idle(held)
		switch {
		case uses == 0: // there is nothing to move
		case why != "":
			left = append(left, step(held, uses, uses, "%s stays on its device: %s", held.ID, why))
		case c.DryRun:
			done = append(done, step(held, uses, 0, "%s would be parked: it has not used its device for %s", held.ID, lasting(since)))
		default:
			c.warn(held, uses, since)
			idle = append(idle, held)
		}
	}
	if len(idle) == 0 || !wait(ctx, c.set.Grace) {
		return done, left
	}
	outcomes := make([]struct {
		api.RungStep
		parked bool
	}, len(idle))
	var group sync.WaitGroup
	for i, held := range idle {
		group.Go(func() { outcomes[i].RungStep, outcomes[i].parked = c.parkOne(ctx, held) })
	}
	group.Wait()
	for _, o := range outcomes {
		if o.parked {
			done = append(done, o.RungStep)
		} else {
			left = append(left, o.RungStep)
		}
	}
	return done, left
}

// idle returns since when a lease does not use its device. Why says that it must
// not be parked.
func (c *climb) idle(held ledger.Held) (since time.Time, why string) {
	if err := c.Parker.Unparkable(held); err != nil {
		return since, err.Error()
	}
	since, known := c.Idle(held.Fence)
	kept, unused := time.Since(c.Parker.Since(held)), time.Since(since)
	switch {
	case !known:
		why = "it is not known whether it uses its device"
	case since.IsZero():
		why = "it uses its device"
	case unused < c.set.IdleAfter:
		why = fmt.Sprintf("it used its device %s ago, and park_idle_after is %s", words.Duration(unused.Round(time.Second)), words.Duration(c.set.IdleAfter))
	case kept < c.set.Keep:
		why = fmt.Sprintf("it has had its device for %s, and keep_seconds is %s", words.Duration(kept.Round(time.Second)), words.Duration(c.set.Keep))
	}
	return since, why
}

// lasting says how long ago a moment was.
func lasting(since time.Time) string { return words.Duration(time.Since(since).Round(time.Second)) }

// warn tells the holder of a lease that it is about to be parked.
func (c *climb) warn(held ledger.Held, uses gpu.MiB, since time.Time) {
	now := time.Now()
	e := gpu.Event{
		Time: now, Code: gpu.EventParking, Severity: gpu.Warning, Lease: held.ID, User: held.Holder.User, By: lease.ByOf(c.by),
		Text: fmt.Sprintf("%s is going to be parked in %s: it has not used its device for %s", held.ID, words.Duration(c.set.Grace), lasting(since)),
		Data: map[string]any{"fence": held.Fence, "memory_mb": int64(uses), "reason": "idle", "at": now.Add(c.set.Grace).Format(time.RFC3339)},
	}
	if len(held.Parts) == 1 {
		e.GPU = held.Parts[0].GPU
	}
	c.Publish(e)
}

// parkOne parks a lease whose holder was told, if it is still idle.
func (c *climb) parkOne(ctx context.Context, held ledger.Held) (s api.RungStep, parked bool) {
	uses := measured(held)
	now, found := c.Book.Find(held.Key())
	if !found || now.Fence != held.Fence || now.State != lease.Active {
		return step(held, uses, measured(now), "%s has ended or was parked by somebody else meanwhile", held.ID), false
	}
	since, why := c.idle(now)
	if why != "" {
		return step(held, uses, measured(now), "%s stays on its device: %s", held.ID, why), false
	}
	if err := c.Parker.Park(ctx, held.Key(), held.Fence, c.by, "it has not used its device for "+lasting(since)); err != nil {
		return step(held, uses, measured(now), "%s could not be parked: %v", held.ID, err), false
	}
	now, _ = c.Book.Find(held.Key())
	return step(held, uses, measured(now), "%s was parked: it had not used its device for %s", held.ID, lasting(since)), true
}

// wait waits; it returns false if ctx ends before.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
