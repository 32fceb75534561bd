package ledger

import (
	"slices"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
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
	standing kin // those of the book
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
	past     kinship.Past             // the leases that have ended
}

// attribute charges the memory that was last measured on a device: to the leases
// whose processes use it, and the rest, with that of the driver, as foreign. The
// ledger calls it again when a lease of such a process begins or ends, so that it
// never leases memory in use before the next measurement.
func (m *machine) attribute(o *observed) {
	uuid := o.Device.UUID
	here := m.standing.holdings(uuid)
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

// concerns reports whether processes of a lease were measured on a device.
func (m *machine) concerns(o *observed, held *lease.Lease) bool {
	r, l := m.standing.register(nil, nil), m.standing.of(held)
	return slices.ContainsFunc(o.used, func(u usedBy) bool { return r.Concerns(u.Process, l) })
}

// foreign returns what the processes under no lease use of a device.
func (m *machine) foreign(uuid string) ForeignUse {
	var sum ForeignUse
	here := m.standing.holdings(uuid)
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
