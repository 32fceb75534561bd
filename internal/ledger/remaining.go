package ledger

import (
	"slices"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

// A lease that is bound to a process outlives it for as long as other processes
// of the lease use a device: they remain, and keep the lease. A program that
// puts itself into the background, or a launcher that ends before its workers,
// would otherwise leave processes behind that may still grow, on memory that was
// given to somebody else. The lease ends when the last of them has ended or has
// left the devices, so it is never kept for a process that merely lingers.

// remaining lists the living processes that use a device under the leases of a
// holder, each once and without the holder itself. What a process uses under a
// nearer lease is accounted for by that one.
func (m *machine) remaining(holder process.ID) []process.ID {
	var list []process.ID
	for uuid, o := range m.devices {
		here := m.on(uuid)
		for _, u := range o.used {
			if here.Under(u.Process, holder) && !slices.Contains(list, u.ID()) && m.alive(u.ID()) {
				list = append(list, u.ID())
			}
		}
	}
	return list
}

// bound lists the leases that are bound to a process.
func (m *machine) bound(id process.ID) []*lease.Lease {
	return slices.DeleteFunc(m.book.Leases(), func(held *lease.Lease) bool {
		return held.Binding != lease.ByProcess || processOf(held) != id || held.Holder.Boot != m.boot
	})
}

// forgetExited takes what a process used that has ended off its devices: the
// kernel took the memory back before it reported the end. What other processes
// of its leases used goes too if they have ended; those that live keep theirs.
func (m *machine) forgetExited(id process.ID) {
	r := m.register(nil)
	for uuid, o := range m.devices {
		before := len(o.used)
		o.used = slices.DeleteFunc(o.used, func(u usedBy) bool {
			ended := r.Tied(u.Process, id) && !m.alive(u.ID())
			if ended {
				o.total -= u.memory
			}
			return ended
		})
		if len(o.used) < before {
			m.attribute(o)
			m.refresh(uuid)
		}
	}
}

// endOfHolder returns the change that ends a lease whose process has ended: a
// release, or a revocation if one was about to happen.
func (m *machine) endOfHolder(held *lease.Lease) lease.Change {
	if r, revoking := m.revoking[held.ID]; revoking && r.fence == held.Fence {
		return lease.Revoke{ID: held.ID, Fence: held.Fence, By: access.Daemon(), Why: r.why}
	}
	return lease.Release{ID: held.ID, Fence: held.Fence, By: access.Daemon(), Why: "its process ended"}
}
