package reclaim

import (
	"context"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/placement"
)

// move proposes which leases to move for requests that wait. It moves nothing: a process
// cannot take its memory to another device.
func (c *climb) move(context.Context) (done, left []api.RungStep) {
	waiting := c.Leases.View().Waiting
	if len(waiting) == 0 {
		return nil, nil
	}
	sums := c.Leases.Sums()
	mine, _ := c.leases()
	holds := map[uint64]ledger.Held{}
	var movable []placement.Movable
	parents := c.parents()
	for _, held := range mine {
		if len(held.Parts) != 1 || len(held.Scope) > 0 || held.Parent != "" || parents[held.Key()] {
			continue // it cannot be moved alone
		}
		holds[held.Fence] = held
		p := held.Parts[0]
		movable = append(movable, placement.Movable{
			Lease: held.Lease, GPU: p.GPU, Load: lease.Load{Memory: max(p.Memory, measured(held)), Slots: p.Slots},
		})
	}
	moves, unmoved := placement.Moves(sites(sums), movable, waiting)
	for _, m := range moves {
		from, to := sums[m.From].Device.Label(), sums[m.To].Device.Label()
		uses := measured(holds[m.Lease.Fence])
		s := step(holds[m.Lease.Fence], uses, uses, "%s could go from %s to %s, which makes room for %s; its program has to be started again", m.Lease.ID, from, to, m.For.ID)
		s.Move = &api.Move{From: m.From, To: m.To, Memory: m.Memory, For: m.For.ID, Restarts: true}
		done = append(done, s)
	}
	for _, u := range unmoved {
		left = append(left, api.RungStep{Lease: u.Request.ID, User: u.Request.Holder.User, Text: u.Request.ID + " " + u.Why})
	}
	return done, left
}

// sites returns the devices in the form that placement needs to move leases between them.
func sites(sums map[string]ledger.DeviceSum) (list []placement.Site) {
	for _, s := range sums {
		list = append(list, placement.Site{
			Device: s.Device, Open: s.Closed == "" && s.Alone == 0 && s.State != gpu.Unavailable,
			Room: lease.Load{Memory: s.Available(), Slots: s.FreeSlots()}, Most: lease.Load{Memory: s.Most, Slots: s.MaxPipelines},
		})
	}
	return list
}

// parents returns the leases that have children.
func (c *climb) parents() map[lease.Key]bool {
	all := map[lease.Key]bool{}
	for _, held := range c.Leases.View().Leases {
		if held.Parent != "" {
			all[lease.Key{Owner: held.Holder.Owner(), ID: held.Parent}] = true
		}
	}
	return all
}
