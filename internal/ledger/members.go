package ledger

import (
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/kin"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

// Process is a process on a device, and the lease it belongs to.
type Process struct {
	Line   []process.ID // itself, and its ancestors
	Name   string
	Kind   gpu.ProcessKind
	Memory gpu.MiB
	Lease  *lease.Lease // the lease that it belongs to, the oldest of several; nil: none
	Ended  string       // if Lease is nil: the lease that it belonged to until that ended; empty: none
}

// Processes lists the processes that were last seen on a device.
func (l *Ledger) Processes(uuid string) []Process {
	l.mu.RLock()
	defer l.mu.RUnlock()
	o := l.devices[uuid]
	if o == nil {
		return nil
	}
	here := l.holdings(uuid)
	list := make([]Process, 0, len(o.used))
	for _, u := range o.used {
		p := Process{Line: u.Line, Name: u.name, Kind: u.kind, Memory: u.memory}
		if owners := here.of(u.Process); len(owners) > 0 {
			p.Lease = owners[0].Lease
		} else {
			p.Ended = l.past.LeaseOf(u.Process)
		}
		list = append(list, p)
	}
	return list
}

// Orphan returns the lease that a process belonged to until the lease ended, by
// its present ancestors or by its environment. It returns "" if there was none,
// or if the process belongs to a present lease. Orphan is for processes that no
// device lists.
func (l *Ledger) Orphan(pid int) (ended string, line []process.ID) {
	id, err := l.census.Identify(pid)
	if err != nil {
		return "", nil
	}
	p := l.census.read(id)
	l.mu.RLock()
	defer l.mu.RUnlock()
	if _, belongs := l.register(l.holdsAny()).Owner(p); belongs {
		return "", p.Line
	}
	return l.past.LeaseOf(p), p.Line
}

// holdsAny returns a function that reports whether a process holds a lease on
// any device.
func (m *machine) holdsAny() func(process.ID) bool {
	holders := map[process.ID]bool{}
	for _, held := range m.book.Leases() {
		if held.Holder.PID != 0 && held.Holder.Boot == m.boot {
			holders[processOf(held)] = true
		}
	}
	return func(id process.ID) bool { return holders[id] }
}

// Members lists the living processes of a lease: its holder, the processes seen
// on a device under it, and all their descendants, except those that hold a lease
// of their own. A process that has left its parent stays a member for as long as
// it is on a device. Members never lists the daemon; see kin.Family.Members.
func (l *Ledger) Members(id string, fence uint64) []process.ID {
	l.mu.RLock()
	holder, roots, others := l.rootsOf(id, fence)
	l.mu.RUnlock()
	if roots == nil {
		return nil
	}
	return l.census.Family().Members(holder, roots, others, l.census.ownLine())
}

// rootsOf returns the holder of a lease, the processes that the members of the
// lease descend from, and the holders of all other leases. Without such a lease
// it returns no roots.
func (m *machine) rootsOf(id string, fence uint64) (holder process.ID, roots, others []process.ID) {
	held := m.book.Lease(id)
	if held == nil || held.Fence != fence || held.Holder.Boot != m.boot {
		return holder, nil, nil
	}
	holder = processOf(held)
	roots = []process.ID{holder}
	for _, p := range held.Parts {
		o := m.devices[p.GPU]
		if o == nil {
			continue
		}
		here := m.holdings(p.GPU)
		for _, u := range o.used {
			if owner, found := here.Owner(u.Process); found && owner.Holder == holder {
				roots = append(roots, u.ID())
			}
		}
	}
	for _, other := range m.book.Leases() {
		if other.Holder.PID != 0 && other.Holder.Boot == m.boot && processOf(other) != holder {
			others = append(others, processOf(other))
		}
	}
	return holder, roots, others
}

// Moved reports whether a process that was a member of a lease belongs to
// another lease now: the process, or its nearest ancestor that holds a lease,
// holds only others.
func (l *Ledger) Moved(id string, fence uint64, member process.ID) bool {
	p := kin.Process{Line: l.census.Line(member)}
	l.mu.RLock()
	defer l.mu.RUnlock()
	owner, found := l.register(l.holdsAny()).Owner(p)
	if !found {
		return false
	}
	held := l.book.Lease(id)
	return held == nil || held.Fence != fence || held.Holder.Boot != l.boot || processOf(held) != owner.Holder
}

// Leased reports whether a process belongs to a lease on a device: it or an
// ancestor holds one, or it was started under one, by its environment.
func (l *Ledger) Leased(uuid string, id process.ID) bool {
	p := l.census.read(id)
	l.mu.RLock()
	defer l.mu.RUnlock()
	_, leased := l.on(uuid).Owner(p)
	return leased
}
