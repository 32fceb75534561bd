package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// Again selects the lease that a request finds if it was made before.
type Again int

// The leases that a request may find.
const (
	Once        Again = iota // none; an id that the user has in use is refused
	SameID                   // the lease of the same user with its id
	SameService              // the oldest lease of the same user for the same service, if it is named after that
)

// Found is a lease that was granted or existed already.
type Found struct {
	*lease.Lease
	Stood bool
	Was   gpu.MiB // former size on each device; zero if the request did not resize the lease
}

// AcquireAgain is like Acquire, but a request that was granted before and is made again
// finds its lease. AcquireAgain resizes the lease if the request asks for another size,
// and renews it if it has a time to live. A lease counts only if it has what the request
// asks for: the same service, the required device, the same binding. A request with exact
// parts always finds its lease; see acquireExactly.
func (l *Ledger) AcquireAgain(ctx context.Context, r lease.Request, again Again) (Found, error) {
	asked := time.Now()
	var found Found
	var err error
	if r.Exact == nil {
		found, err = l.acquire(ctx, r, again)
	} else {
		found, err = acquireExactly(ctx, l, r)
	}
	l.hooks.decided(status(err), time.Since(asked))
	return found, err
}

// find returns the lease that a request finds, or nil if there is none. The caller holds
// mu.
func (s *state) find(r *lease.Request, again Again) (*lease.Lease, error) {
	if again == Once {
		return nil, nil
	}
	if waits := s.book.Request(r.Key()); waits != nil && waits.Into == 0 {
		return nil, fmt.Errorf("ask for %s again: %w", r.ID, lease.ErrWaiting)
	}
	if again == SameID {
		if held := s.book.Lease(r.Key()); held != nil && quota.Answers(held, r) {
			return held, nil
		}
		return nil, nil
	}
	for _, held := range s.book.Leases() {
		if quota.Answers(held, r) && quota.NamedAfter(held.ID, r.Holder.Service) {
			return held, nil
		}
	}
	return nil, nil
}

// adjust resizes and renews an existing lease as a request asks. The caller holds mu.
func (s *state) adjust(held *lease.Lease, r *lease.Request, now time.Time) (Found, error) {
	found := Found{Lease: held, Stood: true}
	if had := held.Parts[0].Memory; had != r.Memory {
		resized, err := s.resize(lease.Resize{Key: held.Key(), Fence: held.Fence, Memory: r.Memory, By: r.By}, r.Limits, now)
		if err != nil {
			return Found{}, err
		}
		found.Lease, found.Was = resized, had
	}
	if held.Binding == lease.ByTTL {
		e, err := s.apply(lease.Renew{Key: held.Key(), Fence: held.Fence, TTL: r.TTL, By: r.By}, now)
		if err != nil {
			return Found{}, err
		}
		found.Lease = e.After
	}
	return found, nil
}
