package lease

import (
	"errors"
	"fmt"

	"github.com/berth-gpu/berth/gpu"
)

// A pool is a lease on one device whose memory is for its children. A child of a pool is
// granted at once if the pool has its memory left, whoever waits, and gives the memory
// back to the pool when it ends.
//
// The pool keeps its size while children take and give back: only the grant and the end of
// the child are entries of the journal. The book counts what a pool has left for the pool,
// and the rest for its children, so the sum of the device is the size of the pool, and no
// entry that a crash leaves out sells memory twice. A child names its pool by fence
// (Lease.From): when the pool ends, its children stand, and hold what they have by
// themselves.

// ErrPoolFull refuses a child for which its pool has too little left.
var ErrPoolFull = errors.New("the pool has too little left")

// ErrNoPool refuses a child of a pool whose parent is none.
var ErrNoPool = errors.New("there is no pool with this id")

// ErrPoolInUse refuses to make a pool smaller than what its children have.
var ErrPoolInUse = errors.New("its children have more")

// PoolError refuses a child for which its pool has too little left. It matches
// ErrPoolFull.
type PoolError struct {
	ID    string // of the child
	Pool  string
	Needs gpu.MiB
	PoolUse
}

func (e *PoolError) Error() string {
	return fmt.Sprintf("take %s from the pool %s for %s: it has %s of %s left", e.Needs.ExactBeside(e.Size), e.Pool, e.ID, e.Left().ExactBeside(e.Needs, e.Size), e.Size.ExactBeside(e.Needs))
}

// Is reports whether target is ErrPoolFull.
func (e *PoolError) Is(target error) bool { return target == ErrPoolFull }

// PoolUse says what became of the memory of a pool.
type PoolUse struct {
	Size   gpu.MiB
	Taken  gpu.MiB // by its children
	Used   gpu.MiB // measured for processes of the pool that no child has
	Leases int     // its children
}

// Left returns how much a child can have.
func (u *PoolUse) Left() gpu.MiB { return max(u.Size-u.Taken-u.Used, 0) }

// pool connects a pool with its children.
type pool struct {
	entry  *entry  // nil if the pool has ended
	taken  gpu.MiB // by the children
	leases int     // children
}

// poolOf returns the pool with a fence, and adds it if it is new.
func (b *Book) poolOf(fence uint64) *pool {
	p := b.pools[fence]
	if p == nil {
		p = &pool{}
		b.pools[fence] = p
	}
	return p
}

// enter connects a lease that comes into the book with its pool, or with its children.
// The caller counts the lease afterwards.
func (e *entry) enter(b *Book) {
	if e.lease.Pool {
		e.pool = b.poolOf(e.lease.Fence)
		e.pool.entry = e
	}
	if e.lease.From != 0 {
		e.from = b.poolOf(e.lease.From)
		e.from.leases++
		e.take(1)
	}
}

// leave undoes enter. The caller does not count the lease any more.
func (e *entry) leave(b *Book) {
	if e.pool != nil {
		e.pool.entry = nil
		b.dropPool(e.lease.Fence, e.pool)
	}
	if e.from != nil {
		e.take(-1)
		e.from.leases--
		b.dropPool(e.lease.From, e.from)
	}
}

func (b *Book) dropPool(fence uint64, p *pool) {
	if p.entry == nil && p.leases == 0 {
		delete(b.pools, fence)
	}
}

// take takes the memory of a child from its pool, or with sign −1 gives it back. It does
// nothing for other leases.
func (e *entry) take(sign gpu.MiB) {
	if e.from == nil {
		return
	}
	whole := e.from.entry
	if whole != nil {
		whole.count(0, -1)
		whole.charge(-1)
	}
	e.from.taken += sign * e.lease.Total().Memory
	if whole != nil {
		whole.count(0, 1)
		whole.charge(1)
	}
}

// holds returns how much memory of a part counts for the lease itself: for a pool, what
// its children have not taken.
func (e *entry) holds(part int) gpu.MiB {
	memory := e.lease.Parts[part].Memory
	if e.pool != nil {
		memory = max(memory-e.pool.taken, 0)
	}
	return memory
}

// uses returns what the lease itself uses over all its devices.
func (e *entry) uses() Usage {
	u := e.lease.Total()
	if e.pool != nil {
		u.Memory = e.holds(0)
	}
	return u
}

// poolUse returns what became of the memory of a pool.
func (e *entry) poolUse() PoolUse {
	return PoolUse{Size: e.lease.Parts[0].Memory, Taken: e.pool.taken, Used: e.places[0].measured, Leases: e.pool.leases}
}

// Pool returns what became of the memory of a pool; false if there is no such pool.
func (b *Book) Pool(k Key) (PoolUse, bool) {
	e := b.leases.get(k)
	if e == nil || e.pool == nil {
		return PoolUse{}, false
	}
	return e.poolUse(), true
}

// verifyPool refuses a child that does not name its pool as that is now, and one for which
// the pool has too little left.
func (b *Book) verifyPool(l *Lease, parent *Lease) error {
	switch {
	case !parent.Pool && l.From != 0, parent.Pool && l.From != parent.Fence:
		return fmt.Errorf("grant %s as a child of %s: %w: the memory is from another pool", l.ID, l.Parent, ErrParent)
	case !parent.Pool:
		return nil
	}
	if use := b.leases.get(parent.Key()).poolUse(); l.Parts[0].Memory > use.Left() {
		return &PoolError{ID: l.ID, Pool: parent.ID, Needs: l.Parts[0].Memory, PoolUse: use}
	}
	return nil
}

// poolProblem returns what is wrong with a pool on this many devices; "" if nothing is.
func (t *Terms) poolProblem(parent string, devices int, memory gpu.MiB) (field, detail string) {
	switch {
	case !t.Pool:
	case parent != "":
		return "pool", "is set for a child; a pool cannot take its memory from another lease"
	case devices != 1:
		return "gpus", fmt.Sprintf("is %d; a pool is on one device", devices)
	case t.Exclusive:
		return "exclusive", "is set for a pool; say how much memory the pool has"
	case memory == 0:
		return "memory_mb", "is zero; say how much memory the pool has"
	case len(t.Scope) > 0:
		return "scope", "is set for a pool; set it for the leases in the pool"
	case t.Parkable:
		return "parkable", "is set for a pool, which berth cannot park: programs of its children would lose their memory"
	}
	return "", ""
}
