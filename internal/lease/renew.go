package lease

import (
	"fmt"
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
	case r.TTL != 0 && ttlProblem(r.TTL) != "":
		return Effect{}, FieldErrors{{"ttl_seconds", ttlProblem(r.TTL)}}
	}
	l := *old
	if r.TTL != 0 {
		l.TTL = r.TTL
	}
	l.Expires = now.Add(l.TTL)
	b.replace(e, &l)
	return Effect{Kind: Renewed, Time: now, Before: old, After: &l, By: r.By}, nil
}

// find returns the lease that an actor wants to change, and refuses an actor who
// may not. A fence that differs from the lease's own belongs to an earlier lease,
// or to none.
func (b *Book) find(op access.Verb, k Key, fence uint64, by *access.Actor) (*entry, error) {
	e, id := b.leases.get(k), k.ID
	var refusal error
	if e != nil {
		refusal = access.May(*by, op, e.lease.Object())
	}
	switch {
	case e == nil && fence != 0 && fence <= b.fence:
		return nil, fmt.Errorf("%s %s: %w: the lease with fence %d has ended", op, id, ErrStaleFence, fence)
	case e == nil && b.waiting.get(k) != nil:
		return nil, fmt.Errorf("%s %s: %w", op, id, ErrWaiting)
	case e == nil && access.May(*by, op, access.Everything()) != nil:
		return nil, fmt.Errorf("%s %s: %w among yours", op, id, ErrUnknown) // it does not tell what others have
	case e == nil:
		return nil, fmt.Errorf("%s %s: %w", op, id, ErrUnknown)
	case refusal != nil:
		return nil, fmt.Errorf("%s %s: %w", op, id, refusal)
	case fence > b.fence:
		return nil, fmt.Errorf("%s %s: %w: %d; the lease with that id has fence %d", op, id, ErrNoFence, fence, e.lease.Fence)
	case fence != 0 && fence != e.lease.Fence:
		return nil, fmt.Errorf("%s %s: %w: %d; the lease with that id has fence %d", op, id, ErrStaleFence, fence, e.lease.Fence)
	}
	return e, nil
}
