package lease

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Renew moves the end of a lease with a time to live to now + TTL.
type Renew struct {
	Key
	Fence uint64        // of the lease that the holder believes it has; zero means any
	TTL   time.Duration // from now on; zero means as before
	By    access.Actor
}

func (r Renew) apply(b *Book, now time.Time) (Effect, error) {
	e, err := b.find(access.Renew, r.Key, r.Fence, &r.By)
	if err != nil {
		return Effect{}, err
	}
	old := e.lease
	ends, limited := old.Ends()
	switch {
	case old.Binding != ByTTL:
		return Effect{}, fmt.Errorf("renew %s: %w: it is a %s lease and needs no renewal", r.ID, ErrBinding, string(old.Binding))
	case !now.Before(old.Expires) && old.State != Parked:
		return Effect{}, fmt.Errorf("renew %s: %w at %s; ask for a new one", r.ID, ErrExpired, old.Expires.Format(time.RFC3339))
	case limited && !now.Before(ends):
		return Effect{}, fmt.Errorf("renew %s: %w: its time limit of %s is over", r.ID, ErrExpired, words.Duration(old.TimeLimit))
	case r.TTL != 0 && TTLProblem(r.TTL) != "":
		return Effect{}, FieldErrors{{"ttl_seconds", TTLProblem(r.TTL)}}
	}
	l := *old
	if r.TTL != 0 {
		l.TTL = r.TTL
	}
	l.Expires = now.Add(l.TTL)
	if err := b.turn(e, &l); err != nil {
		return Effect{}, err
	}
	return Effect{Kind: Renewed, Time: now, Before: old, After: &l, By: r.By}, nil
}

// find returns the lease that an actor wants to change, and refuses an actor who
// may not. A fence that differs from the lease's own belongs to an earlier lease,
// or to none.
func (b *Book) find(op access.Verb, k Key, fence uint64, by *access.Actor) (*entry, error) {
	e, id := b.leases.get(k), k.ID
	if named := b.standing(k, fence); fence != 0 && named != nil {
		e = named
	}
	var refusal error
	if e != nil {
		refusal = access.May(*by, op, e.lease.Object())
	}
	switch {
	case e == nil && fence != 0 && fence <= b.fence:
		return nil, fmt.Errorf("%s %s: %w: the lease with fence %d has ended", op, id, ErrStaleFence, fence)
	case e == nil && b.waiting.get(k) != nil:
		return nil, fmt.Errorf("%s %s: %w", op, id, ErrWaiting)
	case e == nil:
		return nil, b.Unknown(by, op, k)
	case refusal != nil:
		return nil, fmt.Errorf("%s %s: %w", op, id, refusal)
	case fence > b.fence:
		return nil, fmt.Errorf("%s %s: %w: %d; the lease with that id has fence %d", op, id, ErrNoFence, fence, e.lease.Fence)
	case fence != 0 && fence != e.lease.Fence:
		return nil, fmt.Errorf("%s %s: %w: %d; the lease with that id has fence %d", op, id, ErrStaleFence, fence, e.lease.Fence)
	}
	return e, nil
}

// Bind binds a lease of one process to another process, for example from a
// launcher to the program it has started. The lease keeps its fence and its user. The
// daemon may also bind a named lease: that of a job, to the process that minds it.
type Bind struct {
	Key
	Fence uint64 // zero means any
	By    access.Actor

	// The process that holds the lease from now on. The caller of Apply has
	// checked that By may speak for it.
	PID   int
	Start uint64
	Boot  string
}

func (x Bind) apply(b *Book, now time.Time) (Effect, error) {
	e, err := b.find(access.Bind, x.Key, x.Fence, &x.By)
	if err != nil {
		return Effect{}, err
	}
	old, l := e.lease, *e.lease
	if old.Binding != ByProcess && (old.Binding != ByName || x.By.Door != access.Itself) {
		return Effect{}, fmt.Errorf("bind %s: %w: it is a %s lease", x.ID, ErrNotBound, string(old.Binding))
	}
	l.Binding, l.Holder.PID, l.Holder.Start, l.Holder.Boot = ByProcess, x.PID, x.Start, x.Boot
	l.Implied = false // the binding is explicit now
	if err := b.turn(e, &l); err != nil {
		return Effect{}, err
	}
	return Effect{Kind: Bound, Time: now, Before: old, After: &l, By: x.By}, nil
}

// Rescope changes the scope of a lease: the names of the control groups whose
// processes are its own.
type Rescope struct {
	Key
	Fence       uint64 // zero means any
	Add, Remove []string
	By          access.Actor
}

func (x Rescope) apply(b *Book, now time.Time) (Effect, error) {
	e, err := b.find(access.Scope, x.Key, x.Fence, &x.By)
	if err != nil {
		return Effect{}, err
	}
	old, l := e.lease, *e.lease
	l.Scope = slices.DeleteFunc(slices.Clone(old.Scope), func(name string) bool { return slices.Contains(x.Remove, name) })
	for _, name := range x.Add {
		if !slices.Contains(l.Scope, name) {
			l.Scope = append(l.Scope, name)
		}
	}
	if detail := words.NamesProblem(l.Scope, MaxScope); detail != "" {
		return Effect{}, FieldErrors{{"add", detail}}
	}
	if len(l.Scope) > 0 && len(old.Scope) == 0 && (old.State == Parked || old.Asked > 0 || e.want != nil) {
		return Effect{}, fmt.Errorf("give %s a scope: %w: it is parked, berth has shrunk it, or it waits to grow", x.ID, ErrState)
	}
	if err := b.turn(e, &l); err != nil {
		return Effect{}, err
	}
	return Effect{Kind: Scoped, Time: now, Before: old, After: &l, By: x.By}, nil
}
