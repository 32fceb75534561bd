// Package attribution decides which leases of a book the processes on a device
// are charged to.
//
// Package kinship has the evidence; this package has the leases that it is
// about, and divides what a process uses among them.
//
// Pure: no clock, no I/O.
package attribution

import (
	"cmp"
	"slices"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// Leases are the leases of a book as package kinship sees them. Like the book, they are
// for one goroutine at a time.
type Leases struct {
	Book  *lease.Book
	Boot  string                              // the id of this boot
	Match func(service string) *kinship.Match // how the processes of a service are told; nil: not by the settings
}

// ProcessOf returns the process that holds a lease.
func ProcessOf(l *lease.Lease) kinship.ID {
	return kinship.ID{PID: l.Holder.PID, Start: l.Holder.Start}
}

// Kin returns a lease as package kinship sees it. A lease with a scope has no
// holder there: the process that asked for it does not belong to it.
func (s *Leases) Kin(l *lease.Lease) kinship.Lease {
	k := kinship.Lease{
		ID: l.ID, Fence: l.Fence, UID: l.Holder.UID, Bound: l.Binding == lease.ByProcess,
		Service: l.Holder.Service, Name: l.Holder.Name, Unit: l.Unit, Scope: l.Scope, Match: s.Match(l.Holder.Service),
	}
	if s.HasHolder(l) {
		k.Holder = ProcessOf(l)
	}
	return k
}

// HasHolder reports whether the processes of a lease are told by the process
// that holds it. After a reboot there is no such process.
func (s *Leases) HasHolder(l *lease.Lease) bool {
	return l.Holder.PID != 0 && l.Holder.Boot == s.Boot && len(l.Scope) == 0
}

// LimitMandate returns in whose name the time limit of a lease ends its processes:
// in the user's, unless an operator or a rule set it.
func LimitMandate(l *lease.Lease) kinship.Mandate {
	if l.Imposed {
		return kinship.Authority()
	}
	return kinship.OfUser(l.Holder.UID)
}

// standing finds the lease that a process claims, for package kinship.
func (s *Leases) standing(c kinship.Claim) (kinship.Lease, bool) {
	held := s.Book.Lease(lease.Key{Owner: lease.Owner{UID: c.UID}, ID: c.Lease})
	if held == nil {
		return kinship.Lease{}, false
	}
	return s.Kin(held), true
}

// Register returns a register that finds the owner of a process. Holds reports
// which processes hold a lease that counts, and here lists these leases.
func (s *Leases) Register(holds func(kinship.ID) bool, here []kinship.Lease) kinship.Register {
	return kinship.Register{Holds: holds, Lease: s.standing, Here: here}
}

// On returns the register of the holders on a device. It is quick for a few
// questions about certain evidence; for all others, use Holdings.
func (s *Leases) On(uuid string) kinship.Register {
	var here []lease.Holding // filled by the first question
	return s.Register(func(id kinship.ID) bool {
		if here == nil {
			here = s.Book.Holdings(uuid)
		}
		return slices.ContainsFunc(here, func(h lease.Holding) bool { return s.HasHolder(h.Lease) && ProcessOf(h.Lease) == id })
	}, nil)
}

// Anywhere returns the register of all leases.
func (s *Leases) Anywhere() kinship.Register {
	holders := map[kinship.ID]bool{}
	var here []kinship.Lease
	for _, held := range s.Book.Leases() {
		if s.HasHolder(held) {
			holders[ProcessOf(held)] = true
		}
		here = append(here, s.Kin(held))
	}
	return s.Register(func(id kinship.ID) bool { return holders[id] }, here)
}

// Holdings has the leases on a device at one moment.
type Holdings struct {
	kinship.Register
	All      []lease.Holding // oldest first
	byHolder map[kinship.ID][]lease.Holding
}

// Holdings collects the leases on a device.
func (s *Leases) Holdings(uuid string) Holdings {
	h := Holdings{All: s.Book.Holdings(uuid), byHolder: map[kinship.ID][]lease.Holding{}}
	slices.SortFunc(h.All, func(a, b lease.Holding) int { return cmp.Compare(a.Lease.Fence, b.Lease.Fence) })
	here := make([]kinship.Lease, len(h.All))
	for i, each := range h.All {
		here[i] = s.Kin(each.Lease)
		if s.HasHolder(each.Lease) {
			id := ProcessOf(each.Lease)
			h.byHolder[id] = append(h.byHolder[id], each)
		}
	}
	h.Register = s.Register(func(id kinship.ID) bool { return len(h.byHolder[id]) > 0 }, here)
	return h
}

// Of returns the leases that a process is charged to, oldest first: all that its
// owner holds on the device, or those that it is tied to. It also returns the
// tie, which says why, or which leases fit equally if there are none.
func (h *Holdings) Of(p kinship.Process) ([]lease.Holding, kinship.Tie) {
	tie, found := h.Owner(p)
	switch {
	case !found:
		return nil, tie
	case len(tie.Leases) == 0:
		return h.byHolder[tie.Holder], tie
	}
	var owners []lease.Holding
	for _, each := range h.All {
		if slices.Contains(tie.Leases, each.Lease.Fence) {
			owners = append(owners, each)
		}
	}
	return owners, tie
}

// IDs returns the ids of the leases with these fences.
func (h *Holdings) IDs(fences []uint64) []string {
	var list []string
	for _, each := range h.All {
		if slices.Contains(fences, each.Lease.Fence) {
			list = append(list, each.Lease.ID)
		}
	}
	return list
}

// IsMember reports whether a tie makes a process one that may be signalled for a
// lease.
func (s *Leases) IsMember(tie kinship.Tie, held *lease.Lease) bool {
	return tie.By.Certain() && (slices.Contains(tie.Leases, held.Fence) || len(tie.Leases) == 0 && s.HasHolder(held) && tie.Holder == ProcessOf(held))
}

// Charge adds what a process uses to the leases that it belongs to, the oldest
// first, each up to its own amount. What exceeds all of them goes to the newest.
func Charge(owners []lease.Holding, memory gpu.MiB, owned map[lease.Key]gpu.MiB) {
	for _, h := range owners {
		part := min(memory, max(h.Part.Memory-owned[h.Lease.Key()], 0))
		owned[h.Lease.Key()] += part
		memory -= part
	}
	owned[owners[len(owners)-1].Lease.Key()] += memory
}
