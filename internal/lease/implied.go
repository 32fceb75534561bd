package lease

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/internal/access"
)

// A lease is implied if the request for it did not say what ends it. It is bound to the
// process that asked, which is either the application itself or a program like curl,
// which exits as soon as it has the answer. What the process does tells which of the two
// it is:
//
//	             it is measured on a device, or lives for Grace
//	granted ──┬──▶ Settle: the lease ends with the process, as if bound to it by request
//	          ├──▶ Detach: the lease expires, unless its processes are measured
//	          │  it exits before that
//	          └──▶ Release: the lease ends
//	             a signal ends it before that
const (
	// Grace is how long the process of an implied lease must live, if it is not
	// measured on a device, for the lease to end with it.
	Grace = 30 * time.Second
	// DetachedTTL is how long a detached lease lasts after its processes were
	// last measured on a device.
	DetachedTTL = 10 * time.Minute
)

// Settle notes that an implied lease belongs to the process that it is bound to.
type Settle struct {
	Key
	Fence uint64 // zero means any
}

func (s Settle) apply(b *Book, now time.Time) (Effect, error) {
	return b.changeImplied("settle", s.Key, s.Fence, ByProcess, Settled, now, func(l *Lease) { l.Implied = false })
}

// Detach lets an implied lease outlast the process that asked for it. From now on the
// lease has a time to live.
type Detach struct {
	Key
	Fence uint64 // zero means any
}

func (d Detach) apply(b *Book, now time.Time) (Effect, error) {
	effect, err := b.changeImplied("detach", d.Key, d.Fence, ByProcess, Detached, now, func(l *Lease) {
		l.Binding, l.TTL, l.Expires = ByTTL, DetachedTTL, now.Add(DetachedTTL)
		l.EnforcedBy = "none" // the process that asked does not use it
		l.AddNote("the process that asked for it has exited, so it expires 10 minutes after its processes were last measured on a GPU")
	})
	if err == nil {
		effect.Why = "that process exited before it was seen on a GPU"
	}
	return effect, err
}

// Keep renews a detached lease whose processes are measured. It also renews one that is
// due, because nobody could keep it while the daemon was away.
type Keep struct {
	Key
	Fence uint64 // zero means any
}

func (k Keep) apply(b *Book, now time.Time) (Effect, error) {
	return b.changeImplied("keep", k.Key, k.Fence, ByTTL, Renewed, now, func(l *Lease) { l.Expires = now.Add(l.TTL) })
}

// changeImplied changes an implied lease with a binding. Only berth itself changes how an
// implied lease ends.
func (b *Book) changeImplied(op string, k Key, fence uint64, binding Binding, kind Kind, now time.Time, change func(*Lease)) (Effect, error) {
	e := b.leases.get(k)
	switch {
	case e == nil || fence != 0 && fence != e.lease.Fence:
		return Effect{}, fmt.Errorf("%s %s: %w", op, k.ID, ErrUnknown)
	case !e.lease.Implied || e.lease.Binding != binding:
		return Effect{}, fmt.Errorf("%s %s: %w: somebody said what ends it, or that is settled", op, k.ID, ErrState)
	}
	old, l := e.lease, *e.lease
	change(&l)
	if err := b.turn(e, &l); err != nil {
		return Effect{}, err
	}
	return Effect{Kind: kind, Time: now, Before: old, After: &l, By: access.Daemon()}, nil
}
