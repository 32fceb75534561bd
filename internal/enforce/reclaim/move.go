package reclaim

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/text/words"
)

// move proposes which leases to move for requests that wait. It moves nothing: a process
// cannot take its memory to another device.
func (c *climb) move(context.Context) (done, left []api.RungStep) {
	waiting := c.view.Waiting
	if len(waiting) == 0 {
		return nil, nil
	}
	sums := c.Leases.Sums()
	mine, _ := c.leases()
	holds := map[uint64]ledger.Held{}
	var movable []placement.Movable
	parents := c.parents()
	for _, held := range mine {
		if len(held.Parts) != 1 || len(held.Scope) > 0 || held.Parent != "" || parents[held.Fence] {
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
		service, takes := c.Program(m.Lease.Key())
		s := step(holds[m.Lease.Fence], uses, uses, "%s could go from %s to %s, which makes room for %s; %s", m.Lease.ID, from, to, m.For.ID, how(service, sums[m.To].Device, takes))
		s.Move = &api.Move{From: m.From, To: m.To, Memory: m.Memory, For: m.For.ID, Restarts: true, Service: service, Takes: takes.Seconds()}
		done = append(done, s)
	}
	for _, u := range unmoved {
		left = append(left, api.RungStep{Lease: u.Request.ID, User: u.Request.Holder.User, Text: u.Request.ID + " " + u.Why})
	}
	return done, left
}

// how says what has to be done to move a lease, and how long that takes.
func how(service string, to gpu.Device, takes time.Duration) string {
	switch {
	case service == "":
		return "its program has to be started again"
	case takes == 0:
		return fmt.Sprintf("berth move %s %d does that, and stops and starts it", words.Shell(service), to.Index)
	}
	return fmt.Sprintf("berth move %s %d does that in %s, which it takes to stop and to start", words.Shell(service), to.Index, words.Duration(takes))
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

// parents returns the fences of the leases that have children.
func (c *climb) parents() map[uint64]bool {
	all := map[uint64]bool{}
	for _, held := range c.view.Leases {
		all[held.ParentFence] = true
	}
	return all
}
