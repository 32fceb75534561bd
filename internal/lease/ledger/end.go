package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// Release ends a lease, or withdraws a waiting request; lease.Book.Seek says which one a
// name means. A fence of zero matches any fence. Memory that the processes of the lease
// still use counts as foreign until the device is measured again.
func (l *Ledger) Release(ctx context.Context, name lease.Name, fence uint64, by access.Actor) (*lease.Lease, error) {
	var ended *lease.Lease
	err := l.submitFor(ctx, by, func(now time.Time) error {
		k, err := l.book.Seek(&by, access.Release, name, fence)
		if err != nil {
			return err
		}
		if r := l.book.Request(k); fence == 0 && r != nil && r.Into == 0 {
			_, err := l.apply(lease.Withdraw{Key: k, By: by, Why: "it was withdrawn"}, now)
			return err
		}
		e, err := l.apply(lease.Release{Key: k, Fence: fence, By: by}, now)
		ended = e.Before
		return err
	})
	return ended, err
}

// Renew makes a lease with a time to live end ttl from now. A ttl of zero means the time
// to live that it has. Limits are those of the actor; if nil, the ledger finds those of
// the holder.
func (l *Ledger) Renew(ctx context.Context, name lease.Name, fence uint64, ttl time.Duration, by access.Actor, limits *lease.Limits) (*lease.Lease, error) {
	var renewed *lease.Lease
	err := l.submitFor(ctx, by, func(now time.Time) error {
		k, err := l.book.Seek(&by, access.Renew, name, fence)
		if err != nil {
			return err
		}
		if held := l.book.Lease(k); held != nil && ttl > held.TTL {
			if err := quota.MayLast(l.settings.Limits.For(held.Holder, limits, &by), ttl); err != nil {
				return fmt.Errorf("renew %s: %w", k.ID, err)
			}
		}
		e, err := l.apply(lease.Renew{Key: k, Fence: fence, TTL: ttl, By: by}, now)
		renewed = e.After
		return err
	})
	return renewed, err
}

// Revoke ends a lease against its holder's will. A fence of zero matches any fence.
// Spared describes, for people, the processes that were left alone.
func (l *Ledger) Revoke(ctx context.Context, k lease.Key, fence uint64, why string, spared []string) error {
	return l.submit(ctx, func(now time.Time) error {
		_, err := l.apply(lease.Revoke{Key: k, Fence: fence, By: access.Daemon(), Why: why, Spared: spared}, now)
		return err
	})
}

// revocation says why a lease is about to be revoked.
type revocation struct {
	fence  uint64
	why    string
	spared []string
}

// BeginRevoke records why a lease is about to be revoked. If its process ends before
// Revoke, the ledger revokes the lease for that reason instead of releasing it.
// BeginRevoke returns false if the lease has ended.
func (l *Ledger) BeginRevoke(k lease.Key, fence uint64, why string, spared []string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.book.Lease(k)
	if held == nil || held.Fence != fence {
		return false
	}
	l.revoking[k] = revocation{fence, why, spared}
	return true
}
