package ledger

import (
	"maps"
	"slices"
	"sync"

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
		used = l.kin.resolve(l.processes, o.Sample.Processes)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.devices[o.Device.UUID]
	if before == nil {
		l.devices[o.Device.UUID] = &observed{Observation: o, owned: map[string]gpu.MiB{}}
		l.rebuild()
	} else {
		facts := before.Device
		before.Observation = o
		if !sameFacts(&facts, &o.Device) {
			l.rebuild()
		}
	}
	if o.Sample != nil {
		l.attribute(l.devices[o.Device.UUID], used)
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
	l.snapshot = placement.NewSnapshot(all)
	for _, held := range l.book.Leases() {
		for _, p := range held.Parts {
			l.snapshot.AddLeases(held.Holder.Service, p.GPU, 1)
		}
	}
	l.recount()
}

// attribute shares out what was measured on a device: to the leases whose
// processes use it, and what is left to nobody's. The caller holds mu.
func (l *Ledger) attribute(o *observed, used []usedBy) {
	uuid := o.Device.UUID
	byPID := map[int][]*lease.Lease{}
	holdings := l.book.Holdings(uuid)
	slices.SortFunc(holdings, func(a, b lease.Holding) int { return int(a.Lease.Fence) - int(b.Lease.Fence) })
	for _, h := range holdings {
		if h.Lease.Holder.PID != 0 && h.Lease.Holder.Boot == l.boot {
			byPID[h.Lease.Holder.PID] = append(byPID[h.Lease.Holder.PID], h.Lease)
		}
	}
	owned := map[string]gpu.MiB{}
	var known gpu.MiB
	for _, u := range used {
		if owner := ownerOf(u.line, byPID, uuid, owned); owner != nil {
			owned[owner.ID] += u.memory
			known += u.memory
		}
	}
	for _, h := range holdings {
		l.book.Observe(h.Lease.ID, uuid, owned[h.Lease.ID])
	}
	o.owned = owned
	l.book.ObserveForeign(uuid, foreign(o.Sample, used, known))
}

// foreign is what is used on a device by processes under no lease and by the
// driver itself.
func foreign(s *gpu.Sample, used []usedBy, known gpu.MiB) gpu.MiB {
	if total, measured := s.MemoryUsed.Get(); measured {
		return max(total-known, 0)
	}
	var sum gpu.MiB
	for _, u := range used {
		sum += u.memory
	}
	return max(sum-known, 0)
}

// ownerOf finds the lease that a process belongs to: it, or the nearest of its
// ancestors, holds it. Of several leases of one holder on a device, the oldest
// that is not yet used up is charged, and else the newest.
func ownerOf(line []process.ID, byPID map[int][]*lease.Lease, uuid string, owned map[string]gpu.MiB) *lease.Lease {
	for _, id := range line {
		var last *lease.Lease
		for _, held := range byPID[id.PID] {
			if held.Holder.Start != id.Start {
				continue // the pid was used again
			}
			last = held
			at := slices.IndexFunc(held.Parts, func(p lease.Part) bool { return p.GPU == uuid })
			if at >= 0 && owned[held.ID] < held.Parts[at].Memory {
				return held
			}
		}
		if last != nil {
			return last
		}
	}
	return nil
}

// usedBy is what one process uses, with its line of descent: itself, its
// parent, and so on.
type usedBy struct {
	line   []process.ID
	memory gpu.MiB
}

// kinship remembers who descends from whom, as it was when first seen: a child
// whose parent has gone still belongs to the lease of that parent.
type kinship struct {
	mu   sync.Mutex
	seen map[int]ancestry
}

type ancestry struct {
	line []process.ID
	age  int // samples since it was last seen
}

// forgetAfter is for how many samples a process that is not on a device any
// more is remembered. Devices are sampled in turn, so it must be more than
// there are devices.
const forgetAfter = 1000

func (k *kinship) resolve(t process.Table, processes []gpu.Process) []usedBy {
	k.mu.Lock()
	defer k.mu.Unlock()
	for pid, a := range k.seen {
		if a.age++; a.age > forgetAfter {
			delete(k.seen, pid)
		} else {
			k.seen[pid] = a
		}
	}
	var used []usedBy
	for _, p := range processes {
		id, err := t.Identify(p.PID)
		if err != nil {
			continue // it has just ended
		}
		known, ok := k.seen[p.PID]
		if !ok || known.line[0] != id {
			known = ancestry{line: lineOf(t, id)}
		}
		known.age = 0
		k.seen[p.PID] = known
		used = append(used, usedBy{known.line, p.Memory.Or(0)})
	}
	return used
}

// lineOf is a process and its ancestors, nearest first.
func lineOf(t process.Table, id process.ID) []process.ID {
	line := []process.ID{id}
	for len(line) < 64 {
		parent, err := t.Parent(line[len(line)-1].PID)
		if err != nil || parent <= 1 {
			break
		}
		next, err := t.Identify(parent)
		if err != nil {
			break
		}
		line = append(line, next)
	}
	return line
}

// Foreign lists the processes under no lease on a device, by pid.
func (l *Ledger) Foreign(uuid string) []int {
	l.mu.RLock()
	o := l.devices[uuid]
	l.mu.RUnlock()
	if o == nil || o.Sample == nil {
		return nil
	}
	pids := map[int]bool{}
	for _, u := range l.kin.resolve(l.processes, o.Sample.Processes) {
		l.mu.RLock()
		held := slices.ContainsFunc(u.line, func(id process.ID) bool { return l.holdsAt(id, uuid) })
		l.mu.RUnlock()
		if !held {
			pids[u.line[0].PID] = true
		}
	}
	return slices.Sorted(maps.Keys(pids))
}

// holdsAt reports whether a process holds a lease on a device. The caller
// holds mu.
func (l *Ledger) holdsAt(id process.ID, uuid string) bool {
	return slices.ContainsFunc(l.book.Holdings(uuid), func(h lease.Holding) bool {
		return processOf(h.Lease) == id && h.Lease.Holder.Boot == l.boot
	})
}
