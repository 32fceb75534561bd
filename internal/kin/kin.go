// Package kin decides whose process is whose: which holder of leases a process
// belongs to, and by which evidence. It is pure. Callers read the process table
// and hand in what they found: lines of ancestors, environments, users.
//
// Evidence attributes memory; it gives no right. A process that belongs to a
// holder is charged to the leases of that holder and spared as theirs, and
// nothing more follows from it.
//
// A new kind of evidence (a systemd unit, a cgroup scope, a user's program)
// needs three things: the fact in Process, the name in the list of Evidence,
// and a step in Register.ties, after the kinds that are stronger.
package kin

import (
	"slices"
	"strconv"
)

// ID is one process, and never another one that got the same pid later.
type ID struct {
	PID   int
	Start uint64 // clock ticks since boot, from /proc/PID/stat
}

// Process describes one process.
type Process struct {
	Line  []ID  // the process itself, then its ancestors, nearest first
	Claim Claim // what its environment says
}

// ID returns the process itself.
func (p Process) ID() ID { return p.Line[0] }

// Lease identifies a lease, its user, and the process that holds it.
type Lease struct {
	ID     string
	Fence  uint64
	UID    int
	Holder ID
}

// Claim is the lease that a process was started under, by its environment. It
// tells where a process belongs whose ancestors have all ended, also after a
// restart of the daemon. The zero Claim names no lease.
//
// Anybody can write anything into an environment, so a claim counts only
// between a process and a lease of the same user.
type Claim struct {
	Lease string
	Fence uint64
	UID   int // the user that the process runs as
}

// ParseClaim returns the claim of a process of a user, from the values of
// BERTH_LEASE and BERTH_FENCE. Without a fence there is no claim.
func ParseClaim(lease, fence string, uid int) Claim {
	n, err := strconv.ParseUint(fence, 10, 64)
	if err != nil || lease == "" {
		return Claim{}
	}
	return Claim{lease, n, uid}
}

// names reports whether the claim is good for a lease.
func (c Claim) names(l Lease) bool {
	return c.Lease != "" && c == Claim{l.ID, l.Fence, l.UID}
}

// Evidence is a kind of reason why a process belongs to a holder.
type Evidence string

// The kinds of evidence, strongest first.
const (
	// Descent: the process holds the lease itself, or an ancestor does.
	Descent Evidence = "descent"
	// Environment: the process was started with the id and the fence of the
	// lease in its environment, and runs as the user of the lease.
	Environment Evidence = "environment"
)

// Tie is a holder that a process belongs to, and why.
type Tie struct {
	Holder ID
	By     Evidence
}

// Register answers questions about the leases that exist at one moment.
type Register struct {
	// Holds reports whether a process holds a lease that counts for the
	// question, for example one on a certain device.
	Holds func(ID) bool
	// Lease finds a lease that stands by its id.
	Lease func(id string) (Lease, bool)
}

// ties calls yield with each process that p may belong to, strongest evidence
// first, until yield returns false. Whether they hold anything is not asked.
func (r Register) ties(p Process, yield func(Tie) bool) {
	for _, id := range p.Line {
		if !yield(Tie{id, Descent}) {
			return
		}
	}
	if holder, good := r.claimed(p); good && !slices.Contains(p.Line, holder) {
		yield(Tie{holder, Environment})
	}
}

// claimed returns the holder of the lease that a process claims, if the lease
// stands and the claim is good.
func (r Register) claimed(p Process) (ID, bool) {
	if p.Claim.Lease == "" {
		return ID{}, false
	}
	l, stands := r.Lease(p.Claim.Lease)
	return l.Holder, stands && p.Claim.names(l)
}

// Owner returns the holder that a process belongs to: the one with the
// strongest evidence among those that hold something. It returns false if the
// process belongs to none.
func (r Register) Owner(p Process) (Tie, bool) {
	var owner Tie
	found := false
	r.ties(p, func(t Tie) bool {
		if found = r.Holds(t.Holder); found {
			owner = t
		}
		return !found
	})
	return owner, found
}

// Under reports whether a process works for a holder other than itself, and for
// none that is nearer. It does not ask whether the holder still holds anything.
func (r Register) Under(p Process, holder ID) bool {
	if p.ID() == holder || !r.Tied(p, holder) {
		return false
	}
	under := false
	r.ties(p, func(t Tie) bool {
		under = t.Holder == holder
		return !under && !r.Holds(t.Holder)
	})
	return under
}

// Tied reports whether there is any evidence that a process belongs to a
// holder, or is it.
func (r Register) Tied(p Process, holder ID) bool {
	if slices.Contains(p.Line, holder) {
		return true
	}
	claimed, good := r.claimed(p)
	return good && claimed == holder
}

// Concerns reports whether a process may be charged to a lease, or may have
// been until a moment ago: the lease itself need not stand any more.
func (r Register) Concerns(p Process, l Lease) bool {
	return r.Tied(p, l.Holder) || p.Claim.names(l)
}
