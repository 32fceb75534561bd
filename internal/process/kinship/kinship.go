// Package kinship decides whose process is whose: which leases a process
// belongs to, and by which evidence.
//
// It is pure. Callers read the process table and pass in the ancestors of processes,
// environments, users, control groups and names of programs.
//
// Evidence attributes memory; it gives no right. A process that belongs to a
// lease is charged to it and spared as its own, and nothing more follows from
// that. Only certain evidence (Evidence.Certain) makes a process one that may be
// signalled for its lease, and only an act whose Mandate reaches it may do that.
//
// A new kind of evidence needs three things: the fact in Facts, the name in the
// list of Evidence, and a step: an entry in the list likely, after the kinds
// that are stronger, or, if it is certain, a step in Register.Owner.
//
// Pure: no clock, no I/O.
package kinship

import (
	"iter"
	"slices"
	"strconv"

	"github.com/berth-gpu/berth/internal/access"
)

// ID identifies one process, and never another one that got the same pid later.
type ID struct {
	PID   int
	Start uint64 // clock ticks since boot, from /proc/PID/stat
}

// Process describes one process.
type Process struct {
	Ancestry []ID // the process itself, then its ancestors, nearest first
	Facts
}

// ID returns the process itself.
func (p Process) ID() ID { return p.Ancestry[0] }

// Facts holds what is read about one process, apart from its ancestors. A process can
// change all of it while it runs: it executes another program, becomes another user, or
// is moved to another control group.
type Facts struct {
	Origin   Origin     // from its environment
	UID      access.UID // the user that it runs as
	User     string     // login name of that user; empty if not known
	Cgroups  []string   // the paths of its control groups; see ParseCgroups
	Programs []string   // its names: its own, and those of its executable, its command and its script

	Unread bool // its environment and its command could not be read in time
}

// runsAs reports whether the process runs as a user with a known user id.
func (f *Facts) runsAs(uid int) bool {
	id, known := f.UID.Get()
	return known && id == uid
}

// Lease is the part of a lease that package kinship uses.
type Lease struct {
	ID     string
	Fence  uint64
	UID    int  // of its user; access.NoUID if there is none
	Holder ID   // the process that holds it; zero if there is none, or none of this boot
	Bound  bool // it ends with the holder, so its processes need not be guessed

	Service string   // empty if there is none
	Name    string   // name of the holder; empty if not known
	Unit    string   // the systemd unit or container that its processes are in; empty if there is none
	Scope   []string // names of the control groups of its processes, and no others; empty if there are none
	Match   *Match   // the settings of its service; nil if there are none
}

// Origin is the lease that a process was started under, according to its environment. It
// says where a process belongs whose ancestors have all ended, also after a restart of
// the daemon. The zero Origin names no lease.
//
// Anybody can write anything into an environment, so an origin counts only between a
// process and a lease of the same user.
type Origin struct {
	Lease string
	Fence uint64
	UID   int // the user that the process runs as
}

// ParseOrigin returns the origin of a process of a user, from the values of
// BERTH_LEASE and BERTH_FENCE. Without a fence there is none.
func ParseOrigin(lease, fence string, uid int) Origin {
	n, err := strconv.ParseUint(fence, 10, 64)
	if err != nil || lease == "" {
		return Origin{}
	}
	return Origin{lease, n, uid}
}

// names reports whether the origin is this lease.
func (o Origin) names(l Lease) bool {
	return o.Lease != "" && o == Origin{l.ID, l.Fence, l.UID}
}

// Evidence is a kind of reason why a process belongs to a lease.
type Evidence string

// The kinds of evidence, strongest first.
const (
	// Scope means that the process is in a control group that the lease names as its
	// scope. Such a lease takes no process by other evidence.
	Scope Evidence = "scope"
	// Descent means that the process or an ancestor holds the lease.
	Descent Evidence = "descent"
	// Environment means that the process was started with the id and the fence of the
	// lease in its environment, and runs as the user of the lease.
	Environment Evidence = "environment"
	// Unit means that the process is in the systemd unit or the container that the lease
	// names, and runs as the user of the lease.
	Unit Evidence = "unit"
	// Service means that the process matches the settings of the lease's service.
	Service Evidence = "service"
	// Program means that the process runs as the user of the lease, and its program has
	// the name of the lease, its service or its holder.
	Program Evidence = "program"
)

// Certain reports whether berth may signal a process on this evidence. On other evidence,
// berth only counts its memory, and spares it as a process under a lease.
func (e Evidence) Certain() bool { return e == Scope || e == Descent || e == Environment }

// Tie says to which leases a process belongs, and why: to all leases of a holder, or to
// certain leases.
type Tie struct {
	By     Evidence
	Holder ID       // zero if Leases names them
	Leases []uint64 // their fences, oldest lease first; empty means all that Holder holds
}

// Register answers questions about the leases that exist at one moment.
type Register struct {
	// Holds reports whether a process holds a lease without a scope that counts for the
	// question, for example one on a certain device.
	Holds func(ID) bool
	// Lease returns the existing lease that an origin names by its id and the user who runs
	// the process.
	Lease func(Origin) (Lease, bool)
	// Here lists the leases that count for the question, oldest first. Owner, Scoped and
	// Certain use it.
	Here Leases
}

// Leases lists leases, oldest first, by what a process may belong to them. A process that
// belongs to a lease by certain evidence costs no look at the others.
type Leases struct {
	scoped, likely []Lease // those with a scope, and those that processes may belong to by evidence that is not certain
	fences         map[uint64]bool
}

// ListLeases lists leases that come oldest first.
func ListLeases(all []Lease) Leases {
	list := Leases{fences: make(map[uint64]bool, len(all))}
	for _, l := range all {
		list.fences[l.Fence] = true
		switch {
		case len(l.Scope) > 0:
			list.scoped = append(list.scoped, l)
		case !l.Bound || l.Unit != "":
			list.likely = append(list.likely, l)
		}
	}
	return list
}

// Owner returns the leases of a process, by the strongest evidence there is. It returns
// false if the process belongs to none. If that is because the evidence fits several
// leases equally, the tie names them.
func (r Register) Owner(p Process) (Tie, bool) {
	if t, found := r.Scoped(p); found {
		return t, true
	}
	if t, found := r.Certain(p); found {
		return t, true
	}
	return r.likely(&p.Facts)
}

// Scoped returns the leases whose scope a process is in, and false if it is in none. If
// the environment of the process names one of them, Scoped returns only that one; the
// user of the process does not matter.
func (r Register) Scoped(p Process) (Tie, bool) {
	t := Tie{By: Scope}
	for i := range r.Here.scoped {
		l := &r.Here.scoped[i]
		if !p.inScope(l.Scope) {
			continue
		}
		if p.Origin.Lease == l.ID && p.Origin.Fence == l.Fence {
			return Tie{By: Scope, Leases: []uint64{l.Fence}}, true
		}
		t.Leases = append(t.Leases, l.Fence)
	}
	return t, len(t.Leases) > 0
}

// Certain returns the leases of a process by descent or by its environment, and false if
// there are none. The nearest holder counts.
func (r Register) Certain(p Process) (Tie, bool) {
	for _, id := range p.Ancestry {
		if r.Holds(id) {
			return Tie{By: Descent, Holder: id}, true
		}
	}
	l, good := r.startedUnder(p)
	switch {
	case !good:
		return Tie{}, false
	case r.Here.fences[l.Fence]:
		return Tie{By: Environment, Leases: []uint64{l.Fence}}, true
	}
	return Tie{By: Environment, Holder: l.Holder}, l.Holder != ID{} && r.Holds(l.Holder)
}

// startedUnder returns the lease that a process was started under, if the lease stands,
// has no scope, and is of the same user.
func (r Register) startedUnder(p Process) (Lease, bool) {
	if p.Origin.Lease == "" {
		return Lease{}, false
	}
	l, stands := r.Lease(p.Origin)
	return l, stands && len(l.Scope) == 0 && p.Origin.names(l)
}

// Above yields the processes that a process may work for, nearest first: its ancestors, to
// the first that holds something, and if none does, the holder of the lease that it was
// started under. They need not hold anything any more.
func (r Register) Above(p Process) iter.Seq[ID] {
	return func(yield func(ID) bool) {
		for i, id := range p.Ancestry {
			if i > 0 && !yield(id) || r.Holds(id) {
				return
			}
		}
		if l, good := r.startedUnder(p); good && l.Holder != (ID{}) && !slices.Contains(p.Ancestry, l.Holder) {
			yield(l.Holder)
		}
	}
}

// Tied reports whether a process is a holder, descends from it, or was started under one of its
// leases.
func (r Register) Tied(p Process, holder ID) bool {
	if slices.Contains(p.Ancestry, holder) {
		return true
	}
	l, good := r.startedUnder(p)
	return good && holder != ID{} && l.Holder == holder
}

// Concerns reports whether a process may be charged to a lease, or may have been until a
// moment ago: the lease need not exist any more.
func (r Register) Concerns(p Process, l Lease) bool {
	return r.Tied(p, l.Holder) || p.Origin.names(l) || p.inScope(l.Scope) || p.fits(&l)
}
