package ledger

import (
	"slices"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

// A lease that is bound to a process outlives it for as long as other processes
// of the lease use a device: they remain, and keep the lease. Otherwise a program
// that puts itself into the background, or a launcher that ends before its
// workers, would leave processes behind that may still grow, on memory that
// another lease has by then. The lease ends when the last of them has ended or
// has left the devices, so a process that uses no device keeps no lease.

// remaining lists the living processes that use a device under the leases of a
// holder, each once and without the holder itself. It leaves out a process that
// has a nearer lease.
func (s *state) remaining(holder process.ID) []process.ID {
	var list []process.ID
	for uuid, o := range s.devices {
		here := s.standing.on(uuid)
		for _, u := range o.used {
			if here.Under(u.Process, holder) && !slices.Contains(list, u.ID()) && s.alive(u.ID()) {
				list = append(list, u.ID())
			}
		}
	}
	return list
}

// bound lists the leases that are bound to a process.
func (s *state) bound(id process.ID) []*lease.Lease {
	return slices.DeleteFunc(s.book.Leases(), func(held *lease.Lease) bool {
		return held.Binding != lease.ByProcess || processOf(held) != id || held.Holder.Boot != s.boot
	})
}

// forgetExited removes a process that has ended from its devices, with the memory
// it used: the kernel took that back before it reported the end. It also removes
// the other processes of its leases that have ended.
func (s *state) forgetExited(id process.ID) {
	r := s.standing.register(nil, nil)
	for uuid, o := range s.devices {
		before := len(o.used)
		o.used = slices.DeleteFunc(o.used, func(u usedBy) bool {
			ended := r.Tied(u.Process, id) && !s.alive(u.ID())
			if ended {
				o.total -= u.memory
			}
			return ended
		})
		if len(o.used) < before {
			s.attribute(o)
			s.refresh(uuid)
		}
	}
}

// endOfHolder returns the change for a lease whose process has ended: the lease is
// released, or revoked if that was about to happen. An implied lease that is not settled
// lasts without the process.
func (s *state) endOfHolder(held *lease.Lease) lease.Change {
	if r, revoking := s.revoking[held.Key()]; revoking && r.fence == held.Fence {
		return lease.Revoke{Key: held.Key(), Fence: held.Fence, By: access.Daemon(), Why: r.why, Spared: r.spared}
	}
	if held.Implied && held.State == lease.Active && s.inUse[held.Key()] != held.Fence {
		return lease.Detach{Key: held.Key(), Fence: held.Fence}
	}
	return lease.Release{Key: held.Key(), Fence: held.Fence, By: access.Daemon(), Why: "its process ended"}
}
