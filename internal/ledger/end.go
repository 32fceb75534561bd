package ledger

import (
	"context"
	"time"

	"github.com/berth-gpu/berth/internal/lease"
)

// Release ends a lease, or withdraws a request that waits. A fence of zero
// means whichever there is.
func (l *Ledger) Release(ctx context.Context, id string, fence uint64, by lease.Actor) (*lease.Lease, error) {
	var ended *lease.Lease
	err := l.submit(ctx, func(now time.Time) error {
		if fence == 0 && l.book.Request(id) != nil {
			_, err := l.apply(lease.Withdraw{ID: id, By: by, Why: "it was withdrawn"}, now)
			return err
		}
		e, err := l.end(lease.Release{ID: id, Fence: fence, By: by}, now)
		ended = e.Before
		return err
	})
	return ended, err
}

// end applies a change that ends a lease under a holder that may live on. What
// its processes use does not go away with it: until the device is measured
// again, it is foreign. The caller holds mu.
func (l *Ledger) end(c lease.Change, now time.Time) (lease.Effect, error) {
	e, err := l.apply(c, now)
	if err != nil || e.Before == nil {
		return e, err
	}
	for _, p := range e.Before.Parts {
		if o := l.devices[p.GPU]; o != nil && o.owned[e.Before.ID] > 0 {
			sum, _ := l.book.Sum(p.GPU)
			l.book.ObserveForeign(p.GPU, sum.Foreign+o.owned[e.Before.ID])
			delete(o.owned, e.Before.ID)
			l.refresh(p.GPU)
		}
	}
	return e, nil
}

// Renew lets a lease with a time to live last from now on.
func (l *Ledger) Renew(ctx context.Context, id string, fence uint64, ttl time.Duration, by lease.Actor) (*lease.Lease, error) {
	var renewed *lease.Lease
	err := l.submit(ctx, func(now time.Time) error {
		e, err := l.apply(lease.Renew{ID: id, Fence: fence, TTL: ttl, By: by}, now)
		renewed = e.After
		return err
	})
	return renewed, err
}

// Revoke ends a lease against its holder's will.
func (l *Ledger) Revoke(ctx context.Context, id string, why string) error {
	return l.submit(ctx, func(now time.Time) error {
		_, err := l.end(lease.Revoke{ID: id, Why: why}, now)
		return err
	})
}
