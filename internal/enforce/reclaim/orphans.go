package reclaim

import (
	"context"
	"fmt"
	"sync"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// orphans names the processes that go on using devices after their leases have ended, and
// ends them if the settings say so. The service of a lease that has ended is not known,
// so an optimization of one service covers none of them.
func (c *climb) orphans(ctx context.Context) (done, left []api.RungStep) {
	if c.Service != "" {
		return nil, nil
	}
	var ending []Orphan
	for _, o := range c.Orphans.List() {
		if !c.covers(o.On.UUID) {
			continue
		}
		owned := access.Of(access.Process, o.UID, o.User)
		switch {
		case c.set.Orphans != "end":
			left = append(left, c.orphan(o, o.Memory, "%s, and optimization.orphans is name: end it with kill, or start it again under a lease", c.uses(o)))
		case access.May(c.by, access.Release, owned) != nil:
			left = append(left, c.orphan(o, o.Memory, "%s: only its user or an operator may have it ended", c.uses(o)))
		case c.DryRun:
			done = append(done, c.orphan(o, o.Memory, "%s, and would be ended", c.uses(o)))
		default:
			ending = append(ending, o)
		}
	}
	failed := make([]error, len(ending))
	var group sync.WaitGroup
	for i, o := range ending {
		group.Go(func() {
			defer c.Faults.Confine(&failed[i], "", "ending an orphan")
			failed[i] = c.Orphans.End(ctx, o, kinship.MandateOf(c.by))
		})
	}
	group.Wait()
	if len(ending) > 0 {
		c.measure(context.WithoutCancel(ctx))
	}
	using := map[process.ID]gpu.MiB{}
	for _, o := range c.Orphans.List() {
		using[o.ID] += o.Memory
	}
	for i, o := range ending {
		if failed[i] != nil {
			left = append(left, c.orphan(o, using[o.ID], "%s: %v", c.uses(o), failed[i]))
		} else {
			done = append(done, c.orphan(o, using[o.ID], "%s was ended: it used %s of %s, and its lease %s had ended", c.name(o), o.Memory, o.On.Label(), o.Ended))
		}
	}
	return done, left
}

// orphan returns the report of the rung about a process.
func (c *climb) orphan(o Orphan, after gpu.MiB, format string, args ...any) api.RungStep {
	s := api.RungStep{Lease: o.Ended, User: o.User, GPU: o.On.UUID, Before: o.Memory, After: after, Text: fmt.Sprintf(format, args...)}
	if c.inspects(o) {
		s.PID = o.PID
	}
	return s
}

// inspects reports whether the actor may see which process an orphan is.
func (c *climb) inspects(o Orphan) bool {
	return access.May(c.by, access.Inspect, access.Of(access.Process, o.UID, o.User)) == nil
}

// name returns a name of a process that the actor may see.
func (c *climb) name(o Orphan) string {
	switch {
	case c.inspects(o):
		return o.Stranger.String()
	case o.User != "":
		return "A process of " + o.User
	}
	return "A process"
}

// uses says how a process uses its device without a lease.
func (c *climb) uses(o Orphan) string {
	return fmt.Sprintf("%s uses %s of %s although its lease %s has ended", c.name(o), o.Memory, o.On.Label(), o.Ended)
}
