package ledger

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/placement"
	"github.com/berth-gpu/berth/internal/process"
)

// Observe takes in what was measured on a device: how it is, and who uses how
// much of it. It does not wait for the journal.
func (l *Ledger) Observe(o Observation) {
	var used []usedBy
	if o.Sample != nil {
		used = l.kin.resolve(l.processes, o.Sample.Processes, time.Now())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.devices[o.Device.UUID]
	if d == nil {
		d = &observed{Observation: o}
		l.devices[o.Device.UUID] = d
		l.rebuild()
	} else {
		facts := d.Device
		d.Observation = o
		if !sameFacts(&facts, &o.Device) {
			l.rebuild()
		}
	}
	if o.Sample != nil {
		for i := range used {
			used[i].line = l.withClaim(used[i])
		}
		d.used, d.total = used, totalOf(o.Sample, used)
		d.ownUse(o.Sample)
		l.attribute(d)
		l.disinherit()
	}
	l.capacity(o.Device.UUID)
	l.dirty = true
	if _, waiting := l.book.Len(); waiting > 0 {
		l.nudge()
	}
}

// sameFacts reports whether what placement goes by is unchanged.
func sameFacts(a, b *gpu.Device) bool {
	return a.Index == b.Index && a.Name == b.Name && a.Vendor == b.Vendor && a.ComputeCapability == b.ComputeCapability &&
		a.MemoryTotal == b.MemoryTotal && slices.Equal(a.Links, b.Links)
}

// rebuild makes placement's view anew: there is a device more, or one has
// changed. The caller holds mu.
func (l *Ledger) rebuild() {
	var all []gpu.Device
	for _, o := range l.devices {
		all = append(all, o.Device)
	}
	l.snapshot = placement.NewSnapshot(all, l.book, &l.usual)
	for _, held := range l.book.Leases() {
		for _, p := range held.Parts {
			l.snapshot.AddLeases(held.Holder.Service, p.GPU, 1)
		}
	}
	l.recount()
}

// totalOf is what is used on a device in all.
func totalOf(s *gpu.Sample, used []usedBy) gpu.MiB {
	if total, measured := s.MemoryUsed.Get(); measured {
		return total
	}
	var sum gpu.MiB
	for _, u := range used {
		sum += u.memory
	}
	return sum
}

// attribute shares out what was last measured on a device: to the leases whose
// processes use it, and what is left, with what the driver itself takes, to
// nobody's. It is done again when a lease of such a process comes or goes, so
// that memory in use is never sold for want of a new measurement. The caller
// holds mu.
func (l *Ledger) attribute(o *observed) {
	uuid := o.Device.UUID
	byProcess, holdings := l.byProcess(uuid)
	o.owned = map[string]gpu.MiB{}
	var known gpu.MiB
	for _, u := range o.used {
		if owners := ownersOf(u.line, byProcess); len(owners) > 0 {
			charge(owners, u.memory, o.owned)
			known += u.memory
		}
	}
	for _, h := range holdings {
		l.book.Observe(h.Lease.ID, uuid, o.owned[h.Lease.ID])
	}
	l.book.ObserveForeign(uuid, max(o.total-known, 0))
}

// byProcess lists the leases on a device, oldest first, and those of each
// process. The caller holds mu.
func (l *Ledger) byProcess(uuid string) (map[process.ID][]lease.Holding, []lease.Holding) {
	byProcess := map[process.ID][]lease.Holding{}
	holdings := l.book.Holdings(uuid)
	slices.SortFunc(holdings, func(a, b lease.Holding) int { return cmp.Compare(a.Lease.Fence, b.Lease.Fence) })
	for _, h := range holdings {
		if h.Lease.Holder.Boot == l.boot {
			id := processOf(h.Lease)
			byProcess[id] = append(byProcess[id], h)
		}
	}
	return byProcess, holdings
}

// withClaim is the line of a process, at its end the holder of the lease that
// it was started under. The caller holds mu.
func (l *Ledger) withClaim(u usedBy) []process.ID {
	held := l.book.Lease(u.claim.lease)
	if held == nil || held.Fence != u.claim.fence || held.Holder.UID != u.claim.uid || slices.Contains(u.line, processOf(held)) {
		return u.line
	}
	return append(slices.Clip(u.line), processOf(held))
}

// ownersOf finds the leases that a process belongs to: it, or the nearest of
// its ancestors that has any, holds them.
func ownersOf(line []process.ID, byProcess map[process.ID][]lease.Holding) []lease.Holding {
	for _, id := range line {
		if owners := byProcess[id]; len(owners) > 0 {
			return owners
		}
	}
	return nil
}

// charge puts what a process uses down to the leases of its holder, the oldest
// first, each as far as it reaches; what is over that goes to the newest.
func charge(owners []lease.Holding, memory gpu.MiB, owned map[string]gpu.MiB) {
	for _, h := range owners {
		part := min(memory, max(h.Part.Memory-owned[h.Lease.ID], 0))
		owned[h.Lease.ID] += part
		memory -= part
	}
	owned[owners[len(owners)-1].Lease.ID] += memory
}

// concerns reports whether processes of a lease were measured on the device.
func (o *observed) concerns(held *lease.Lease) bool {
	id := processOf(held)
	return slices.ContainsFunc(o.used, func(u usedBy) bool { return slices.Contains(u.line, id) })
}

// bury takes what a dead process used off its devices: the kernel took it back
// before it told. Descendants that are dead too are buried with it; those that
// live on keep what they use. The caller holds mu.
func (l *Ledger) bury(id process.ID) {
	for uuid, o := range l.devices {
		before := len(o.used)
		o.used = slices.DeleteFunc(o.used, func(u usedBy) bool {
			dead := slices.Contains(u.line, id) && !l.processes.Alive(u.line[0])
			if dead {
				o.total -= u.memory
			}
			return dead
		})
		if len(o.used) < before {
			l.attribute(o)
			l.refresh(uuid)
		}
	}
}

// foreign is what the processes under no lease on a device were measured to
// use. The caller holds mu.
func (l *Ledger) foreign(uuid string) ForeignUse {
	var sum ForeignUse
	pids := map[int]bool{}
	for _, u := range l.devices[uuid].used {
		if !l.holdsAny(u.line, uuid) {
			sum.Memory += u.memory
			pids[u.line[0].PID] = true
		}
	}
	sum.PIDs = slices.Sorted(maps.Keys(pids))
	return sum
}

// holdsAny reports whether one of these processes holds a lease on a device. The
// caller holds mu.
func (l *Ledger) holdsAny(line []process.ID, uuid string) bool {
	return slices.ContainsFunc(l.book.Holdings(uuid), func(h lease.Holding) bool {
		return h.Lease.Holder.Boot == l.boot && slices.Contains(line, processOf(h.Lease))
	})
}
