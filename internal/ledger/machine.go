package ledger

import (
	"cmp"
	"slices"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/kin"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/placement"
	"github.com/berth-gpu/berth/internal/process"
)

// machine is the state of the ledger: the book, the devices with their
// measurements, and the snapshot that placement decides on. It has no lock: the
// callers of its methods hold the lock of the ledger.
type machine struct {
	boot  string
	cpus  int
	alive func(process.ID) bool

	settings Settings
	book     *lease.Book
	snapshot *placement.Snapshot
	usual    placement.Requests
	gate     gate           // see behind
	line     placement.Line // see form
	devices  map[string]*observed
	dirty    bool // something changed that may let a waiting request in
	waiters  map[lease.Key]*waiter
	effects  []lease.Effect // of the batch at hand

	revoking map[lease.Key]revocation // by lease: why it is about to be revoked
	inUse    map[lease.Key]uint64     // by lease: the fence of an implied lease whose processes were measured
	past     kin.Past                 // the leases that have ended
}

// processOf returns the process that holds a lease.
func processOf(l *lease.Lease) process.ID {
	return process.ID{PID: l.Holder.PID, Start: l.Holder.Start}
}

// kinOf returns a lease as package kin sees it. A lease with a scope has no
// holder there: the process that asked for it does not belong to it.
func (m *machine) kinOf(l *lease.Lease) kin.Lease {
	k := kin.Lease{
		ID: l.ID, Fence: l.Fence, UID: l.Holder.UID, Bound: l.Binding == lease.ByProcess,
		Service: l.Holder.Service, Name: l.Holder.Name, Unit: l.Unit, Scope: l.Scope, Match: m.settings.Services[l.Holder.Service].Match,
	}
	if m.hasHolder(l) {
		k.Holder = processOf(l)
	}
	return k
}

// hasHolder reports whether the processes of a lease are told by the process
// that holds it. After a reboot there is no such process.
func (m *machine) hasHolder(l *lease.Lease) bool {
	return l.Holder.PID != 0 && l.Holder.Boot == m.boot && len(l.Scope) == 0
}

// standing finds the lease that a process claims, for package kin.
func (m *machine) standing(c kin.Claim) (kin.Lease, bool) {
	held := m.book.Lease(lease.Key{Owner: lease.Owner{UID: c.UID}, ID: c.Lease})
	if held == nil {
		return kin.Lease{}, false
	}
	return m.kinOf(held), true
}

// register returns a register that finds the owner of a process. Holds reports
// which processes hold a lease that counts, and here lists these leases.
func (m *machine) register(holds func(process.ID) bool, here []kin.Lease) kin.Register {
	return kin.Register{Holds: holds, Lease: m.standing, Here: here}
}

// on returns the register of the holders on a device. It is quick for a few
// questions about certain evidence; for all others, use holdings.
func (m *machine) on(uuid string) kin.Register {
	var here []lease.Holding // filled by the first question
	return m.register(func(id process.ID) bool {
		if here == nil {
			here = m.book.Holdings(uuid)
		}
		return slices.ContainsFunc(here, func(h lease.Holding) bool { return m.hasHolder(h.Lease) && processOf(h.Lease) == id })
	}, nil)
}

// anywhere returns the register of all leases.
func (m *machine) anywhere() kin.Register {
	holders := map[process.ID]bool{}
	var here []kin.Lease
	for _, held := range m.book.Leases() {
		if m.hasHolder(held) {
			holders[processOf(held)] = true
		}
		here = append(here, m.kinOf(held))
	}
	return m.register(func(id process.ID) bool { return holders[id] }, here)
}

// holdings has the leases on a device at one moment.
type holdings struct {
	kin.Register
	all      []lease.Holding // oldest first
	byHolder map[process.ID][]lease.Holding
}

// holdings collects the leases on a device.
func (m *machine) holdings(uuid string) holdings {
	h := holdings{all: m.book.Holdings(uuid), byHolder: map[process.ID][]lease.Holding{}}
	slices.SortFunc(h.all, func(a, b lease.Holding) int { return cmp.Compare(a.Lease.Fence, b.Lease.Fence) })
	here := make([]kin.Lease, len(h.all))
	for i, each := range h.all {
		here[i] = m.kinOf(each.Lease)
		if m.hasHolder(each.Lease) {
			id := processOf(each.Lease)
			h.byHolder[id] = append(h.byHolder[id], each)
		}
	}
	h.Register = m.register(func(id process.ID) bool { return len(h.byHolder[id]) > 0 }, here)
	return h
}

// of returns the leases that a process is charged to, oldest first: all that its
// owner holds on the device, or those that it is tied to. It also returns the
// tie, which says why, or which leases fit equally if there are none.
func (h *holdings) of(p kin.Process) ([]lease.Holding, kin.Tie) {
	tie, found := h.Owner(p)
	switch {
	case !found:
		return nil, tie
	case len(tie.Leases) == 0:
		return h.byHolder[tie.Holder], tie
	}
	var owners []lease.Holding
	for _, each := range h.all {
		if slices.Contains(tie.Leases, each.Lease.Fence) {
			owners = append(owners, each)
		}
	}
	return owners, tie
}

// ids returns the ids of the leases with these fences.
func (h *holdings) ids(fences []uint64) []string {
	var list []string
	for _, each := range h.all {
		if slices.Contains(fences, each.Lease.Fence) {
			list = append(list, each.Lease.ID)
		}
	}
	return list
}

// isMember reports whether a tie makes a process one that may be signalled for a
// lease.
func (m *machine) isMember(tie kin.Tie, held *lease.Lease) bool {
	return tie.By.Certain() && (slices.Contains(tie.Leases, held.Fence) || len(tie.Leases) == 0 && m.hasHolder(held) && tie.Holder == processOf(held))
}

// attribute charges the memory that was last measured on a device: to the leases
// whose processes use it, and the rest, with that of the driver, as foreign. The
// ledger calls it again when a lease of such a process begins or ends, so that it
// never leases memory in use before the next measurement.
func (m *machine) attribute(o *observed) {
	uuid := o.Device.UUID
	here := m.holdings(uuid)
	o.owned = map[lease.Key]gpu.MiB{}
	var known gpu.MiB
	var shared []func() // what may be charged to several leases takes the room that the rest leaves
	for _, u := range o.used {
		owners, _ := here.of(u.Process)
		switch len(owners) {
		case 0:
			continue
		case 1:
			charge(owners, u.memory, o.owned)
		default:
			shared = append(shared, func() { charge(owners, u.memory, o.owned) })
		}
		known += u.memory
	}
	for _, charge := range shared {
		charge()
	}
	for _, h := range here.all {
		m.book.Observe(h.Lease.Key(), uuid, o.owned[h.Lease.Key()])
	}
	m.book.ObserveForeign(uuid, max(o.total-known, 0))
}

// charge adds what a process uses to the leases that it belongs to, the oldest
// first, each up to its own amount. What exceeds all of them goes to the newest.
func charge(owners []lease.Holding, memory gpu.MiB, owned map[lease.Key]gpu.MiB) {
	for _, h := range owners {
		part := min(memory, max(h.Part.Memory-owned[h.Lease.Key()], 0))
		owned[h.Lease.Key()] += part
		memory -= part
	}
	owned[owners[len(owners)-1].Lease.Key()] += memory
}

// concerns reports whether processes of a lease were measured on a device.
func (m *machine) concerns(o *observed, held *lease.Lease) bool {
	r, l := m.register(nil, nil), m.kinOf(held)
	return slices.ContainsFunc(o.used, func(u usedBy) bool { return r.Concerns(u.Process, l) })
}

// foreign returns what the processes under no lease use of a device.
func (m *machine) foreign(uuid string) ForeignUse {
	var sum ForeignUse
	here := m.holdings(uuid)
	for _, u := range m.devices[uuid].used {
		if owners, _ := here.of(u.Process); owners == nil {
			sum.Memory += u.memory
			sum.PIDs = append(sum.PIDs, u.ID().PID)
		}
	}
	slices.Sort(sum.PIDs)
	sum.PIDs = slices.Compact(sum.PIDs)
	return sum
}

// reflect updates the snapshot of placement after an effect, or with sign −1
// after its undo.
func (m *machine) reflect(e *lease.Effect, sign int) {
	// Every effect changes room, shares or the queue, with few exceptions: a
	// renewal changes only a time, a time limit that is due nothing yet, and a new
	// request can let in only itself.
	m.dirty = m.dirty || e.Kind != lease.Renewed && e.Kind != lease.Asked && !e.Fleeting()
	subject := e.Lease()
	if subject == nil || e.Fleeting() {
		return
	}
	come := 0
	switch {
	case e.Before == nil:
		come = sign
	case e.After == nil:
		come = -sign
	}
	for _, p := range subject.Parts {
		m.snapshot.AddLeases(subject.Holder.Service, p.GPU, come)
		if o := m.devices[p.GPU]; o != nil && (m.concerns(o, subject) || e.ChangesKin() && m.concerns(o, e.Before)) {
			m.attribute(o)
		}
		m.refresh(p.GPU)
	}
}
