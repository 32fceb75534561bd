package ledger

import (
	"slices"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

// Process is a process on a device, and whose it is.
type Process struct {
	Line   []process.ID // itself, and its ancestors
	Name   string
	Kind   gpu.ProcessKind
	Memory gpu.MiB
	Lease  *lease.Lease // that it works under; nil: none. Of several it is the oldest
	Ended  string       // without one: the lease that it worked under until that ended; empty: none
}

// Processes lists what was last seen on a device.
func (l *Ledger) Processes(uuid string) []Process {
	l.mu.RLock()
	defer l.mu.RUnlock()
	o := l.devices[uuid]
	if o == nil {
		return nil
	}
	byProcess, _ := l.byProcess(uuid)
	list := make([]Process, 0, len(o.used))
	for _, u := range o.used {
		p := Process{Line: u.line, Name: u.name, Kind: u.kind, Memory: u.memory}
		if owners := ownersOf(u.line, byProcess); len(owners) > 0 {
			p.Lease = owners[0].Lease
		} else {
			p.Ended = l.endedLeaseOf(u)
		}
		list = append(list, p)
	}
	return list
}

// ending is the end of a lease that a process held.
type ending struct {
	claim        // what a process would have in its environment that worked under it
	at    uint64 // see process.Now
}

// saw reports whether a process was there already when the lease ended. One that
// was started later never worked under it, whoever its ancestors are.
func (e ending) saw(id process.ID) bool { return id.Start < e.at }

// endedLeaseOf is the lease that a process worked under, by its descent or by
// its environment, as far as ends are remembered. A claim that nobody remembers
// says nothing: anybody can claim anything. The caller holds mu.
func (l *Ledger) endedLeaseOf(u usedBy) string {
	for _, id := range u.line {
		if e, known := l.ended[id]; known && e.saw(u.line[0]) {
			return e.lease
		}
	}
	if u.claim.lease == "" {
		return ""
	}
	for _, e := range l.ended {
		if e.claim == u.claim && e.saw(u.line[0]) {
			return e.lease
		}
	}
	return ""
}

// rememberedEnds is for how many processes it is remembered which lease of
// theirs ended last, for telling who is an orphan.
const rememberedEnds = 1024

// remember notes that a lease has ended.
func (l *Ledger) remember(ended *lease.Lease) {
	at := process.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.condemned, ended.ID)
	if ended.Holder.PID == 0 || ended.Holder.Boot != l.boot {
		return
	}
	id := processOf(ended)
	if _, known := l.ended[id]; !known {
		l.endings = append(l.endings, id)
	}
	l.ended[id] = ending{claim{ended.ID, ended.Fence, ended.Holder.UID}, at}
	if len(l.endings) > rememberedEnds {
		delete(l.ended, l.endings[0])
		l.endings = l.endings[1:]
	}
}

// Orphan tells whether a process belongs to a lease that has ended, by its
// descent as it is now or by its environment, and to which. It is for processes
// that are on no device's list.
func (l *Ledger) Orphan(pid int) (ended string, line []process.ID) {
	id, err := l.processes.Identify(pid)
	if err != nil {
		return "", nil
	}
	u := usedBy{line: l.processes.Line(id), claim: claimOf(l.processes, pid)}
	l.mu.RLock()
	defer l.mu.RUnlock()
	u.line = l.withClaim(u)
	for _, held := range l.book.Leases() {
		if held.Holder.Boot == l.boot && slices.Contains(u.line, processOf(held)) {
			return "", u.line
		}
	}
	return l.endedLeaseOf(u), u.line
}

// Members lists the living processes of a lease: its holder, what was seen on a
// device under it, and all that descends from them, except what holds a lease
// of its own. A process may have left its parent; it stays a member for as long
// as it is on a device. The daemon and those it descends from are nobody's, and
// where the holder is one of them, so is what the daemon has started: members
// may be ended.
func (l *Ledger) Members(id string, fence uint64) []process.ID {
	l.mu.RLock()
	held := l.book.Lease(id)
	if held == nil || held.Fence != fence || held.Holder.Boot != l.boot {
		l.mu.RUnlock()
		return nil
	}
	holder := processOf(held)
	roots := []process.ID{holder}
	for _, p := range held.Parts {
		byProcess, _ := l.byProcess(p.GPU)
		if o := l.devices[p.GPU]; o != nil {
			for _, u := range o.used {
				if slices.ContainsFunc(ownersOf(u.line, byProcess), func(h lease.Holding) bool { return h.Lease == held }) {
					roots = append(roots, u.line[0])
				}
			}
		}
	}
	var others []process.ID
	for _, other := range l.book.Leases() {
		if other.Holder.PID != 0 && other.Holder.Boot == l.boot && processOf(other) != holder {
			others = append(others, processOf(other))
		}
	}
	l.mu.RUnlock()
	spared := l.processes.Tree(others)
	if slices.Contains(spared, holder) {
		// It was started from inside another lease, whose processes are its
		// ancestors: only what is below itself counts.
		spared = l.processes.Tree(slices.DeleteFunc(others, func(id process.ID) bool {
			return slices.Contains(l.processes.Tree([]process.ID{id}), holder)
		}))
	}
	own := l.ownLine()
	spared = append(spared, own...)
	if slices.Contains(own, holder) {
		spared = append(spared, l.processes.Tree(own[:1])...)
	}
	return slices.DeleteFunc(l.processes.Tree(roots), func(id process.ID) bool { return slices.Contains(spared, id) })
}

// Moved reports whether a process that was a member of a lease is under another
// one now: it, or the nearest of its ancestors that has any, holds others only.
func (l *Ledger) Moved(id string, fence uint64, member process.ID) bool {
	line := l.processes.Line(member)
	l.mu.RLock()
	defer l.mu.RUnlock()
	held := map[process.ID]bool{} // whether this lease is one of those it holds
	for _, each := range l.book.Leases() {
		if each.Holder.PID != 0 && each.Holder.Boot == l.boot {
			holder := processOf(each)
			held[holder] = held[holder] || each.ID == id && each.Fence == fence
		}
	}
	for _, ancestor := range line {
		if this, any := held[ancestor]; any {
			return !this
		}
	}
	return false
}

// Leased reports whether a process is under a lease on a device: it or an
// ancestor holds one, or it was started under one, by its environment.
func (l *Ledger) Leased(uuid string, id process.ID) bool {
	u := usedBy{line: l.processes.Line(id), claim: claimOf(l.processes, id.PID)}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.holdsAny(l.withClaim(u), uuid)
}

// condemnation is why a lease is about to be revoked.
type condemnation struct {
	fence uint64
	why   string
}

// Condemn says why a lease is going to be revoked. If its process ends before
// Revoke, the lease is revoked for that reason, and not released. False: it has
// ended.
func (l *Ledger) Condemn(id string, fence uint64, why string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.book.Lease(id)
	if held == nil || held.Fence != fence {
		return false
	}
	l.condemned[id] = condemnation{fence, why}
	return true
}
