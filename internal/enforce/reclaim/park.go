package reclaim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/text/words"
)

// park parks the leases that allow it and do not use their devices.
func (c *climb) park(ctx context.Context) (done, left []api.RungStep) {
	mine, others := c.leases()
	left = othersLeft(others)
	var idle []ledger.Held
	for _, held := range mine {
		uses := measured(held)
		unused, why := c.unused(held)
		switch {
		case uses == 0: // there is nothing to move
		case why != "":
			left = append(left, step(held, uses, uses, "%s stays on its device: %s", held.ID, why))
		case c.DryRun:
			done = append(done, step(held, uses, 0, "%s would be parked: it has not used its device for %s", held.ID, unused))
		default:
			idle = append(idle, held)
		}
	}
	failed := make([]error, len(idle))
	var group sync.WaitGroup
	for i, held := range idle {
		unused, _ := c.unused(held)
		group.Go(func() {
			defer c.Faults.Confine(&failed[i], held.Holder.User, "parking "+held.ID)
			failed[i] = c.Parker.ParkIdle(ctx, held.Key(), held.Fence, "it has not used its device for "+unused)
		})
	}
	group.Wait()
	for i, held := range idle {
		before := measured(held)
		now, _ := c.Leases.Find(held.Key()) // a lease that has ended has no measurement
		if failed[i] != nil {
			left = append(left, step(held, before, measured(now), "%s was not parked: %v", held.ID, failed[i]))
		} else {
			done = append(done, step(held, before, measured(now), "%s was parked: it did not use its device", held.ID))
		}
	}
	return done, left
}

// unused returns for how long a lease has not used its device, and, if it must not be
// parked, why.
func (c *climb) unused(held ledger.Held) (lasting, why string) {
	if !c.services[held.Holder.Service].MayPark().Or(held.Parkable) {
		return "", "neither its request nor its service says that it is parkable"
	}
	if err := c.Leases.Unparkable(held.Key(), held.Fence); err != nil {
		return "", err.Error()
	}
	if len(held.Scope) > 0 {
		return "", "it belongs to a container or a job of another manager, and leaves only while others wait for its device"
	}
	if kept := c.Parker.Kept(held.Lease); kept != "" {
		return "", kept + "; parkable: unshared says that they share none"
	}
	f, idle := c.Idle(held.Fence)
	kept, unused := time.Since(held.Granted), time.Since(f.Since)
	if !held.Returned.IsZero() {
		kept = time.Since(held.Returned)
	}
	service := c.services[held.Holder.Service]
	set := c.set.For(service)
	switch {
	case service.Stays == "true":
		why = "its service says keep: true"
	case !idle:
		why = "it uses its device, or nobody can tell"
	case unused < set.ParkIdleAfter:
		why = fmt.Sprintf("it used its device %s ago, and park_idle_after is %s", words.Duration(unused), words.Duration(set.ParkIdleAfter))
	case kept < set.Keep:
		why = fmt.Sprintf("it has had its device for %s, and keep_seconds is %s", words.Duration(kept), words.Duration(set.Keep))
	}
	return words.Duration(unused), why
}
