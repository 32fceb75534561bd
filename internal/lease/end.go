package lease

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/internal/access"
)

// Release ends a lease because its holder asks for it, or because the holder is
// gone.
type Release struct {
	Key
	Fence uint64 // zero means any
	By    access.Actor
	Why   string
}

func (r Release) apply(b *Book, now time.Time) (Effect, error) {
	e, err := b.find(access.Release, r.Key, r.Fence, &r.By)
	switch {
	case err != nil:
		return Effect{}, err
	case e.lease.State == Parked && r.By.Door != access.Itself && !(len(e.lease.Scope) > 0 && access.Owns(r.By, e.lease.Object())):
		// Its processes cannot go on without it. A manager that set a scope ends them first.
		return Effect{}, fmt.Errorf("release %s: %w", r.ID, ErrParked)
	}
	return b.end(e, Released, r.By, r.Why, now), nil
}

// Expire ends a lease that was not renewed in time. See Due.
type Expire struct{ Key }

func (x Expire) apply(b *Book, now time.Time) (Effect, error) {
	e := b.leases.get(x.Key)
	switch {
	case e == nil && b.waiting.get(x.Key) != nil:
		return Effect{}, fmt.Errorf("expire %s: %w", x.ID, ErrWaiting)
	case e == nil:
		return Effect{}, fmt.Errorf("expire %s: %w", x.ID, ErrUnknown)
	case e.lease.Binding != ByTTL:
		return Effect{}, fmt.Errorf("expire %s: %w", x.ID, ErrBinding)
	case e.lease.State == Parked:
		return Effect{}, fmt.Errorf("expire %s: %w: it is parked", x.ID, ErrNotDue)
	case now.Before(e.lease.Expires):
		return Effect{}, fmt.Errorf("expire %s: %w: it expires at %s", x.ID, ErrNotDue, e.lease.Expires.Format(time.RFC3339))
	}
	return b.end(e, Expired, access.Daemon(), "it was not renewed", now), nil
}

// Revoke ends a lease against its holder's will.
type Revoke struct {
	Key
	Fence  uint64 // zero means any
	By     access.Actor
	Why    string
	Spared []string // processes that were left alone, for people
}

func (r Revoke) apply(b *Book, now time.Time) (Effect, error) {
	e, err := b.find(access.Revoke, r.Key, r.Fence, &r.By)
	if err != nil {
		return Effect{}, err
	}
	effect := b.end(e, Revoked, r.By, r.Why, now)
	effect.Spared = r.Spared
	return effect, nil
}

func (b *Book) end(e *entry, kind Kind, by access.Actor, why string, now time.Time) Effect {
	waited := e.settleInto(b)
	if b.ahead {
		b.remove(e)
	} else {
		b.disown(e)
	}
	return Effect{Kind: kind, Time: now, Before: e.lease, Request: waited, By: by, Why: why}
}
