package reclaim

import (
	"context"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/text/words"
)

// lookEvery is how often devices are read while programs give memory back. After
// calmReadings equal readings in a row they are done.
const (
	lookEvery    = 250 * time.Millisecond
	calmReadings = 2
)

// asked is a lease whose programs were asked for memory.
type asked struct {
	ledger.Held
	before, after gpu.MiB
	calm          int  // readings in a row without a change, after something was given back
	ended         bool // the lease has ended
}

// trim asks the programs of all leases at once to give back the memory that their
// libraries keep for later, and waits until their use has settled. A program that does
// not answer costs only the time limit.
func (c *climb) trim(ctx context.Context) (done, left []api.RungStep) {
	mine, others := c.leases()
	left = othersLeft(others)
	var all []*asked
	for _, held := range mine {
		uses := measured(held)
		if uses == 0 {
			continue // it has nothing to give back
		}
		if !held.Allows(lease.MayTrim) {
			left = append(left, step(held, uses, uses, "%s is not asked: it belongs to a container or a job of another manager, which does not allow it", held.ID))
			continue
		}
		if c.DryRun {
			done = append(done, step(held, uses, uses, "%s would be asked for memory that its libraries keep for later; it uses %s", held.ID, uses))
			continue
		}
		c.Publish(lease.TrimEvent(held.Lease, c.by, time.Now()))
		all = append(all, &asked{Held: held, before: uses, after: uses})
	}
	began := time.Now()
	c.settle(ctx, all)
	for _, a := range all {
		switch {
		case a.ended:
			done = append(done, step(a.Held, a.before, 0, "%s was asked for memory, and has ended since", a.ID))
		case a.after < a.before:
			done = append(done, step(a.Held, a.before, a.after, "%s gave back %s", a.ID, a.before-a.after))
		default:
			left = append(left, step(a.Held, a.before, a.after, "%s was asked, and gave nothing back within %s: its programs keep nothing for later, or do not listen (berth.trim_on_request in Python does)", a.ID, words.Duration(time.Since(began).Round(100*time.Millisecond))))
		}
	}
	return done, left
}

// settle reads the devices of leases again and again, until all leases have given
// something back and use the same amount for a while, or the time is over.
func (c *climb) settle(ctx context.Context, all []*asked) {
	if len(all) == 0 {
		return
	}
	var devices []string
	seen := map[string]bool{}
	for _, a := range all {
		for _, p := range a.Parts {
			if !seen[p.GPU] {
				seen[p.GPU] = true
				devices = append(devices, p.GPU)
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.set.TrimTimeout)
	defer cancel()
	tick := time.NewTicker(min(lookEvery, max(c.set.TrimTimeout/4, time.Millisecond)))
	defer tick.Stop()
	for over := false; !over; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			over = true
		}
		c.read(context.WithoutCancel(ctx), devices)
		calm := true
		for _, a := range all {
			a.look(c.Leases)
			calm = calm && (a.ended || a.calm >= calmReadings)
		}
		over = over || calm
	}
}

// look updates how much a lease uses now.
func (a *asked) look(leases Leases) {
	now, found := leases.Find(a.Key())
	if !found || now.Fence != a.Fence {
		a.ended = true
		return
	}
	uses := measured(now)
	if uses < a.before && uses == a.after {
		a.calm++
	} else {
		a.calm = 0
	}
	a.after = uses
}
