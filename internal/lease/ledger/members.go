package ledger

import (
	"maps"
	"slices"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// Process is a process on a device, and the lease it belongs to.
type Process struct {
	GPU    string       // UUID of the device
	Line   []process.ID // the process and its ancestors
	Name   string
	Kind   gpu.ProcessKind
	Memory gpu.MiB
	Lease  *lease.Lease     // the lease that it belongs to, the oldest of several; nil if none
	By     kinship.Evidence // why it belongs to Lease
	Fits   []string         // if Lease is nil: the ids of the leases that By fits equally
	Ended  string           // if Lease is nil: the lease that it belonged to until that ended; empty if none
}

// Processes lists the processes that were last seen on a device.
func (l *Ledger) Processes(uuid string) []Process {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var list []Process
	l.eachProcess(uuid, func(p Process, _ []lease.Holding) { list = append(list, p) })
	return list
}

// Belonging lists the processes that were last seen under each lease, by the
// fence of the lease. A process that is charged to several leases is listed for each.
func (l *Ledger) Belonging() map[uint64][]Process {
	l.mu.RLock()
	defer l.mu.RUnlock()
	all := map[uint64][]Process{}
	for _, uuid := range slices.Sorted(maps.Keys(l.devices)) {
		l.eachProcess(uuid, func(p Process, owners []lease.Holding) {
			for _, h := range owners {
				all[h.Lease.Fence] = append(all[h.Lease.Fence], p)
			}
		})
	}
	return all
}

// BelongingTo lists the processes that were last seen under one lease, in the order of
// Belonging. It looks only at the devices where processes were charged to that lease: who
// has none costs no look at the others.
func (l *Ledger) BelongingTo(held *lease.Lease) (list []Process) {
	var uuids []string
	for _, part := range held.Parts {
		uuids = append(uuids, part.GPU)
	}
	slices.Sort(uuids)
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, uuid := range uuids {
		o := l.devices[uuid]
		if o == nil {
			continue
		}
		if _, charged := o.owned[held.Key()]; !charged {
			continue
		}
		l.eachProcess(uuid, func(p Process, owners []lease.Holding) {
			if slices.ContainsFunc(owners, func(h lease.Holding) bool { return h.Lease.Fence == held.Fence }) {
				list = append(list, p)
			}
		})
	}
	return list
}

// eachProcess calls do with each process that was last seen on a device, and the
// leases that it is charged to. The caller holds mu.
func (s *state) eachProcess(uuid string, do func(Process, []lease.Holding)) {
	o := s.devices[uuid]
	if o == nil || len(o.used) == 0 {
		return
	}
	here := s.standing.holdings(uuid)
	for _, u := range o.used {
		owners, tie := here.of(u.Process)
		p := Process{GPU: uuid, Line: u.Ancestry, Name: u.name, Kind: u.kind, Memory: u.memory, By: tie.By}
		if len(owners) > 0 {
			p.Lease = owners[0].Lease
		} else {
			p.Fits, p.Ended = here.ids(tie.Leases), s.past.LeaseOf(u.Process)
		}
		do(p, owners)
	}
}

// Orphan returns the lease that a process belonged to until the lease ended, by its
// present ancestors or by its environment. It returns "" if there is none, or if the
// process belongs to a present lease. Orphan is for processes that no device lists.
func (l *Ledger) Orphan(pid int) (ended string, line []process.ID) {
	id, err := l.census.Identify(pid)
	if err != nil {
		return "", nil
	}
	p := l.census.read(id)
	l.mu.RLock()
	defer l.mu.RUnlock()
	if _, belongs := l.standing.anywhere().Owner(p); belongs {
		return "", p.Ancestry
	}
	return l.past.LeaseOf(p), p.Ancestry
}

// Members lists the living processes that berth may act on for a lease: its holder, the
// processes seen on a device under it by certain evidence, and all their descendants,
// except those that hold their own lease. A process that has left its parent stays a
// member for as long as it is on a device. The members of a lease with a scope are the
// processes in the scope alone. Members never lists the daemon; see
// kinship.Family.Members.
//
// The mandate by which berth acts decides which of the members it reaches: see
// kinship.Mandate.
func (l *Ledger) Members(k lease.Key, fence uint64) []process.ID {
	return l.membersOf(func() []*lease.Lease {
		if held := l.book.Standing(k, fence); held != nil && held.Fence == fence {
			return []*lease.Lease{held}
		}
		return nil
	})
}

// Family lists the members of a lease and of its children: a share that holds for a
// launcher also holds for the programs that it starts. It reads the processes of the
// machine once.
func (l *Ledger) Family(k lease.Key, fence uint64) []process.ID {
	return l.membersOf(func() (family []*lease.Lease) {
		if held := l.book.Standing(k, fence); held != nil && held.Fence == fence {
			family = append(family, held)
		}
		for held := range l.book.After(0) {
			if held.ParentFence == fence {
				family = append(family, held)
			}
		}
		return family
	})
}

// membersOf lists the members of leases that list returns, which has the lock.
func (l *Ledger) membersOf(list func() []*lease.Lease) (members []process.ID) {
	l.mu.RLock()
	var scoped, plain []*lease.Lease
	for _, held := range list() {
		if len(held.Scope) > 0 {
			scoped = append(scoped, held)
		} else {
			plain = append(plain, held)
		}
	}
	roots, holders := l.rootsOf(plain)
	register := kinship.Register{}
	if len(scoped) > 0 {
		register = l.standing.anywhere()
	}
	l.mu.RUnlock()
	if len(roots) > 0 {
		family, own := l.census.Family(), l.census.ownLine()
		for holder, roots := range roots {
			members = append(members, family.Members(holder, roots, holders, own)...)
		}
	}
	for _, held := range scoped {
		in, _ := l.census.inScope(held, processOf(held), register)
		members = append(members, in...)
	}
	return members
}

// Users lists the members of a lease that were last seen on a device under it, and the
// members that descend from them; and those of the processes that berth must not act on.
// The other members have not taken its memory: what started a program, and in a scope
// what runs beside it.
func (l *Ledger) Users(k lease.Key, fence uint64) (users, barred []process.ID) {
	using := map[process.ID]bool{}
	if held := l.Lease(k, fence); held != nil {
		for _, p := range l.BelongingTo(held) {
			using[p.Line[0]] = true
		}
	}
	idle := func(id process.ID) bool {
		return !slices.ContainsFunc(l.census.Ancestry(id), func(line process.ID) bool { return using[line] })
	}
	members, barred := l.Scoped(k, fence)
	return slices.DeleteFunc(members, idle), slices.DeleteFunc(barred, idle)
}

// Scoped lists the members of a lease, and the processes in its scope that berth must not
// act on: see census.inScope.
func (l *Ledger) Scoped(k lease.Key, fence uint64) (members, barred []process.ID) {
	l.mu.RLock()
	held := l.book.Standing(k, fence)
	if held == nil || held.Fence != fence || len(held.Scope) == 0 {
		l.mu.RUnlock()
		return l.Members(k, fence), nil
	}
	register := l.standing.anywhere()
	l.mu.RUnlock()
	return l.census.inScope(held, processOf(held), register)
}

// rootsOf returns the processes that the members of leases without a scope descend from, by
// the holder of the leases, and the holders of all leases. The holder is zero for leases
// that have none from this boot. It looks at each device once.
func (s *state) rootsOf(leases []*lease.Lease) (roots map[process.ID][]process.ID, holders []process.ID) {
	roots = map[process.ID][]process.ID{}
	here := map[string]map[uint64]process.ID{} // by device: the leases there, with their holders
	for _, held := range leases {
		var holder process.ID
		if s.standing.hasHolder(held) {
			holder = processOf(held)
			roots[holder] = []process.ID{holder}
		}
		for _, p := range held.Parts {
			if here[p.GPU] == nil {
				here[p.GPU] = map[uint64]process.ID{}
			}
			here[p.GPU][held.Fence] = holder
		}
	}
	for uuid, wanted := range here {
		o := s.devices[uuid]
		if o == nil || len(o.used) == 0 {
			continue
		}
		on := s.standing.holdings(uuid)
		for _, u := range o.used {
			tie, found := on.Owner(u.Process)
			if !found || !tie.By.Certain() {
				continue
			}
			for _, h := range on.owners(tie) {
				if holder, is := wanted[h.Lease.Fence]; is {
					roots[holder] = append(roots[holder], u.ID())
					if len(tie.Leases) == 0 {
						break // the others are of the same holder
					}
				}
			}
		}
	}
	if len(roots) == 0 {
		return nil, nil
	}
	for held := range s.book.After(0) {
		if s.standing.hasHolder(held) {
			holders = append(holders, processOf(held))
		}
	}
	return roots, holders
}

// Moved reports whether a process that was a member of a lease belongs to
// another lease now, by certain evidence.
func (l *Ledger) Moved(k lease.Key, fence uint64, member process.ID) bool {
	p := l.census.read(member)
	l.mu.RLock()
	defer l.mu.RUnlock()
	tie, found := l.standing.anywhere().Owner(p)
	if !found || !tie.By.Certain() {
		return false
	}
	held := l.book.Standing(k, fence)
	return held == nil || held.Fence != fence || !l.standing.isMember(tie, held)
}

// Leased reports whether a process belongs to a lease on a device, by any evidence.
func (l *Ledger) Leased(uuid string, id process.ID) bool {
	p := l.census.read(id)
	l.mu.RLock()
	defer l.mu.RUnlock()
	here := l.standing.holdings(uuid)
	_, leased := here.Owner(p)
	return leased
}
