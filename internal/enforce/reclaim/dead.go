package reclaim

import (
	"context"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/process"
)

// dead releases the leases of processes that have ended. The ledger does that by itself
// within milliseconds, unless it could not watch the process. It needs no permission:
// such a lease ends by its own terms.
func (c *climb) dead(context.Context) (done, left []api.RungStep) {
	for _, held := range c.view.Leases {
		holder := process.ID{PID: held.Holder.PID, Start: held.Holder.Start}
		if !c.chosen(held) || held.Binding != lease.ByProcess || holder.PID == 0 || len(held.Scope) > 0 || !c.Processes.Ended(holder) {
			continue
		}
		before := held.Total().Memory
		switch {
		case held.KeptBy != 0:
			left = append(left, step(held, before, before, "the process of %s has ended, and others that it started use its devices: they keep the lease", held.ID))
		case c.DryRun:
			done = append(done, step(held, before, before, "%s would be released: its process has ended", held.ID))
		default:
			c.Leases.Exited(holder)
			if c.stands(held) {
				left = append(left, step(held, before, before, "the process of %s has ended, and the lease could not be released yet", held.ID))
			} else {
				done = append(done, step(held, before, 0, "%s was released: its process had ended", held.ID))
			}
		}
	}
	return done, left
}

// stands reports whether a lease still exists.
func (c *climb) stands(held ledger.Held) bool {
	now, found := c.Leases.Find(held.Key())
	return found && now.Fence == held.Fence
}
