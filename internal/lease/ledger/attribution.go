package ledger

import (
	"iter"
	"slices"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// kin has the leases of a book as package kinship sees them. Kinship has the evidence;
// kin decides which leases the processes on a device are charged to, and how to divide
// the use of a process among them. Like the book, it is for one goroutine at a time. It
// has no clock and does no I/O.
type kin struct {
	book     *lease.Book
	boot     string          // the id of this boot
	settings *quota.Settings // say how to recognize the processes of a service
}

// processOf returns the process that holds a lease.
func processOf(l *lease.Lease) kinship.ID {
	return kinship.ID{PID: l.Holder.PID, Start: l.Holder.Start}
}

// of returns a lease as package kinship sees it. A lease with a scope has no
// holder there: the process that asked for it does not belong to it.
func (k *kin) of(l *lease.Lease) kinship.Lease {
	relative := kinship.Lease{
		ID: l.ID, Fence: l.Fence, UID: l.Holder.UID, Bound: l.Binding == lease.ByProcess,
		Service: l.Holder.Service, Name: l.Holder.Name, Unit: l.Unit, Scope: l.Scope, Match: k.settings.Services[l.Holder.Service].Match,
	}
	if k.hasHolder(l) {
		relative.Holder = processOf(l)
	}
	return relative
}

// hasHolder reports whether the processes of a lease are recognized by the process that
// holds it. After a reboot that process does not exist.
func (k *kin) hasHolder(l *lease.Lease) bool {
	return l.Holder.PID != 0 && l.Holder.Boot == k.boot && len(l.Scope) == 0
}

// found finds the lease that a process was started under, for package kinship.
func (k *kin) found(o kinship.Origin) (kinship.Lease, bool) {
	held := k.book.Standing(lease.Key{Owner: lease.Owner{UID: o.UID}, ID: o.Lease}, o.Fence)
	if held == nil {
		return kinship.Lease{}, false
	}
	return k.of(held), true
}

// register returns a register that finds the owner of a process. Holds reports whether a
// process holds a lease that counts, and here lists these leases.
func (k *kin) register(holds func(kinship.ID) bool, here []kinship.Lease) kinship.Register {
	return kinship.Register{Holds: holds, Lease: k.found, Here: kinship.ListLeases(here)}
}

// on returns the register of the holders on a device, for a few questions about certain
// evidence: it takes no time for the leases of others. For all other questions, use
// holdings.
func (k *kin) on(uuid string) kinship.Register {
	asked := map[kinship.ID]bool{} // whether it holds a lease there
	return k.register(func(id kinship.ID) bool {
		holds, known := asked[id]
		if !known {
			for held := range k.heldBy(id) {
				if holds = held.On(uuid); holds {
					break
				}
			}
			asked[id] = holds
		}
		return holds
	}, nil)
}

// heldBy yields the leases whose processes are recognized by the process id, in no order.
func (k *kin) heldBy(id kinship.ID) iter.Seq[*lease.Lease] {
	return func(yield func(*lease.Lease) bool) {
		for held := range k.book.HeldBy(lease.Holder{PID: id.PID, Start: id.Start, Boot: k.boot}) {
			if k.hasHolder(held) && !yield(held) {
				return
			}
		}
	}
}

// anywhere returns the register of all leases.
func (k *kin) anywhere() kinship.Register {
	holders := map[kinship.ID]bool{}
	var here []kinship.Lease
	for _, held := range k.book.Leases() {
		if k.hasHolder(held) {
			holders[processOf(held)] = true
		}
		here = append(here, k.of(held))
	}
	return k.register(func(id kinship.ID) bool { return holders[id] }, here)
}

// holdings has the leases on a device at one moment.
type holdings struct {
	kinship.Register
	byFence  map[uint64]lease.Holding
	byHolder map[kinship.ID][]lease.Holding // oldest first
}

// holdings collects the leases on a device.
func (k *kin) holdings(uuid string) holdings {
	all := k.book.Granted(uuid)
	h := holdings{byFence: make(map[uint64]lease.Holding, len(all)), byHolder: map[kinship.ID][]lease.Holding{}}
	here := make([]kinship.Lease, len(all))
	for i, each := range all {
		here[i], h.byFence[each.Lease.Fence] = k.of(each.Lease), each
		if k.hasHolder(each.Lease) {
			id := processOf(each.Lease)
			h.byHolder[id] = append(h.byHolder[id], each)
		}
	}
	h.Register = k.register(func(id kinship.ID) bool { return len(h.byHolder[id]) > 0 }, here)
	return h
}

// of returns the leases that a process is charged to, oldest first: all that its
// owner holds on the device, or those that it is tied to. It also returns the
// tie, which says why, or which leases fit equally if there are none.
func (h *holdings) of(p kinship.Process) ([]lease.Holding, kinship.Tie) {
	tie, found := h.Owner(p)
	if !found {
		return nil, tie
	}
	return h.owners(tie), tie
}

// owners returns the leases of a tie, oldest first.
func (h *holdings) owners(tie kinship.Tie) []lease.Holding {
	if len(tie.Leases) == 0 {
		return h.byHolder[tie.Holder]
	}
	owners := make([]lease.Holding, len(tie.Leases))
	for i, fence := range tie.Leases {
		owners[i] = h.byFence[fence]
	}
	return owners
}

// ids returns the ids of the leases with these fences.
func (h *holdings) ids(fences []uint64) []string {
	var list []string
	for _, fence := range fences {
		list = append(list, h.byFence[fence].Lease.ID)
	}
	return list
}

// isMember reports whether a tie lets berth signal a process for a lease.
func (k *kin) isMember(tie kinship.Tie, held *lease.Lease) bool {
	return tie.By.Certain() && (slices.Contains(tie.Leases, held.Fence) || len(tie.Leases) == 0 && k.hasHolder(held) && tie.Holder == processOf(held))
}

// charge adds the memory of a process to the leases that it belongs to, the oldest first,
// each up to its own amount. Memory beyond all of them goes to the newest.
func charge(owners []lease.Holding, memory gpu.MiB, owned map[lease.Key]gpu.MiB) {
	for _, h := range owners {
		part := min(memory, max(h.Part.Memory-owned[h.Lease.Key()], 0))
		owned[h.Lease.Key()] += part
		memory -= part
	}
	owned[owners[len(owners)-1].Lease.Key()] += memory
}

// bills sums up what processes use by the leases that they share, so that many processes of
// many leases cost one look at these leases.
type bills struct {
	list []bill
	by   map[billed][]int // places in list
}

type bill struct {
	tie    kinship.Tie
	memory gpu.MiB
}

// billed tells most ties apart: the holder, or the first lease.
type billed struct {
	holder kinship.ID
	first  uint64
}

func (b *bills) add(tie kinship.Tie, memory gpu.MiB) {
	k := billed{holder: tie.Holder}
	if len(tie.Leases) > 0 {
		k = billed{first: tie.Leases[0]}
	}
	for _, i := range b.by[k] {
		if slices.Equal(b.list[i].tie.Leases, tie.Leases) {
			b.list[i].memory += memory
			return
		}
	}
	if b.by == nil {
		b.by = map[billed][]int{}
	}
	b.by[k] = append(b.by[k], len(b.list))
	b.list = append(b.list, bill{tie, memory})
}

// recharge charges again what was measured on the devices where leases have changed since.
// It looks at every lease and process there, so calls
// that are worked on together share one look: what one user has made large must not cost
// everybody that for each change. Until then nothing in use can be leased: what was charged
// to a lease that has ended is foreign. The caller holds mu.
func (s *state) recharge() {
	for _, o := range s.devices {
		if s.stale && o.stale {
			s.attribute(o)
			s.refresh(o.Device.UUID)
		}
	}
	s.stale = false
}

// attribute charges the memory that was last measured on a device: to the leases whose
// processes use it, and the rest, with that of the driver, as foreign.
func (s *state) attribute(o *observed) {
	uuid := o.Device.UUID
	o.owned, o.stale = map[lease.Key]gpu.MiB{}, false
	var here holdings
	if len(o.used) > 0 {
		here = s.standing.holdings(uuid)
	}
	var known gpu.MiB
	var shared bills // for several leases, which take the room that the others leave
	for _, u := range o.used {
		tie, found := here.Owner(u.Process)
		if !found {
			continue
		}
		known += u.memory
		if len(tie.Leases) == 1 || len(tie.Leases) == 0 && len(here.byHolder[tie.Holder]) == 1 {
			charge(here.owners(tie), u.memory, o.owned)
		} else {
			shared.add(tie, u.memory)
		}
	}
	for _, b := range shared.list {
		charge(here.owners(b.tie), b.memory, o.owned)
	}
	for _, h := range s.book.Noted(uuid) { // those without processes any more, too
		s.book.Observe(h.Lease.Key(), uuid, o.owned[h.Lease.Key()])
	}
	for k, measured := range o.owned {
		s.book.Observe(k, uuid, measured)
	}
	s.book.ObserveForeign(uuid, max(o.total-known, 0))
}

// concerns reports whether processes of a lease were measured on a device.
func (s *state) concerns(o *observed, held *lease.Lease) bool {
	r, l := s.standing.register(nil, nil), s.standing.of(held)
	return slices.ContainsFunc(o.used, func(u *usedBy) bool { return r.Concerns(u.Process, l) })
}

// foreign returns the memory that processes under no lease use on a device.
func (s *state) foreign(uuid string) placement.ForeignUse {
	var sum placement.ForeignUse
	here := s.standing.holdings(uuid)
	for _, u := range s.devices[uuid].used {
		if owners, _ := here.of(u.Process); owners == nil {
			sum.Memory += u.memory
			sum.PIDs = append(sum.PIDs, u.ID().PID)
		}
	}
	slices.Sort(sum.PIDs)
	sum.PIDs = slices.Compact(sum.PIDs)
	return sum
}
