package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
)

// change makes a change to the lease or request that an actor names; lease.Book.Seek says
// which one a name means. A fence of zero matches any fence. Change returns the lease
// before and after.
func (l *Ledger) change(ctx context.Context, by *access.Actor, v access.Verb, name lease.Name, fence uint64, of func(k lease.Key) (lease.Change, error)) (before, after *lease.Lease, err error) {
	err = l.submitFor(ctx, *by, func(now time.Time) error {
		k, err := l.book.Seek(by, v, name, fence)
		if err == nil && by.Door != access.Itself && v != access.Scope {
			err = k.Free()
		}
		if err != nil {
			return err
		}
		c, err := of(k)
		if err != nil {
			return err
		}
		e, err := l.apply(c, now)
		before, after = e.Before, e.After
		return err
	})
	return before, after, err
}

// Release ends a lease, or withdraws a waiting request. Memory that the processes of the
// lease still use counts as foreign until the device is measured again.
func (l *Ledger) Release(ctx context.Context, name lease.Name, fence uint64, by access.Actor) (*lease.Lease, error) {
	ended, _, err := l.change(ctx, &by, access.Release, name, fence, func(k lease.Key) (lease.Change, error) {
		if r := l.book.Request(k); fence == 0 && r != nil && r.Into == 0 {
			return lease.Withdraw{Key: k, By: by, Why: "it was withdrawn"}, nil
		}
		return lease.Release{Key: k, Fence: fence, By: by}, nil
	})
	return ended, err
}

// Withdraw takes a waiting request out of the queue. If the request waits to change a
// lease, the lease stays as it is. Withdraw ends no lease: a request that was granted
// meanwhile is refused with lease.ErrState.
func (l *Ledger) Withdraw(ctx context.Context, name lease.Name, fence uint64, by access.Actor) error {
	_, _, err := l.change(ctx, &by, access.Release, name, fence, func(k lease.Key) (lease.Change, error) {
		if r := l.book.Request(k); r != nil && (fence == 0 || r.Into == fence) {
			return lease.Withdraw{Key: k, By: by, Why: "it was withdrawn"}, nil
		}
		if _, err := l.book.Find(access.Release, k, fence, &by); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("withdraw %s: %w: nothing of it waits", k.ID, lease.ErrState)
	})
	return err
}

// Cancel asks to end the programs of a lease, and the lease with them. It withdraws a
// waiting request. For a lease or a request that is a part of another lease, it cancels
// that one, except for a lease from a pool: its program is none of the pool's. Cancel
// returns the cancelled lease, or nil for a request.
func (l *Ledger) Cancel(ctx context.Context, name lease.Name, fence uint64, by access.Actor, why string) (*lease.Lease, error) {
	_, cancelled, err := l.change(ctx, &by, access.Cancel, name, fence, func(k lease.Key) (lease.Change, error) {
		launcher, its := l.book.Launcher(k, fence)
		waits := l.book.Lease(k) == nil && l.book.Request(k) != nil
		switch {
		case waits && fence == 0 && launcher == k:
			return lease.Withdraw{Key: k, By: by, Why: "it was cancelled"}, nil
		case launcher == k:
			return lease.Cancel{Key: k, Fence: fence, By: by, Why: why}, nil
		case !waits:
			if _, err := l.book.Find(access.Cancel, k, fence, &by); err != nil {
				return nil, err
			}
		}
		if err := launcher.Free(); err != nil {
			return nil, err
		}
		return lease.Cancel{Key: launcher, Fence: its, By: by, Why: why}, nil
	})
	return cancelled, err
}

// CancelRun asks to end the programs of the lease of a run, and the lease with them, for
// its job or its service. A fence of zero matches any fence.
func (l *Ledger) CancelRun(ctx context.Context, k lease.Key, fence uint64, by access.Actor, why string) (cancelled *lease.Lease, err error) {
	err = l.submitFor(ctx, by, func(now time.Time) error {
		e, err := l.apply(lease.Cancel{Key: k, Fence: fence, By: by, Why: why}, now)
		cancelled = e.After
		return err
	})
	return cancelled, err
}

// Claim notes that the lease with a fence is for the run in a key, see lease.Claim.
func (l *Ledger) Claim(ctx context.Context, k lease.Key, fence uint64) error {
	return l.submit(ctx, func(now time.Time) error {
		_, err := l.apply(lease.Claim{Key: k, Fence: fence}, now)
		return err
	})
}

// Renew makes a lease with a time to live end ttl from now. A ttl of zero means the time
// to live that it has. Limits are those of the actor; if nil, the ledger finds those of
// the holder.
func (l *Ledger) Renew(ctx context.Context, name lease.Name, fence uint64, ttl time.Duration, by access.Actor, limits *lease.Limits) (*lease.Lease, error) {
	_, renewed, err := l.change(ctx, &by, access.Renew, name, fence, func(k lease.Key) (lease.Change, error) {
		if held := l.book.Lease(k); held != nil && ttl > held.TTL {
			if err := quota.MayLast(l.settings.Limits.For(held.Holder, limits, &by), ttl); err != nil {
				return nil, fmt.Errorf("renew %s: %w", k.ID, err)
			}
		}
		return lease.Renew{Key: k, Fence: fence, TTL: ttl, By: by}, nil
	})
	return renewed, err
}

// Rescope changes the control groups by which the processes of a lease are recognized.
func (l *Ledger) Rescope(ctx context.Context, name lease.Name, fence uint64, add, remove []string, by access.Actor) (*lease.Lease, error) {
	_, changed, err := l.change(ctx, &by, access.Scope, name, fence, func(k lease.Key) (lease.Change, error) {
		return lease.Rescope{Key: k, Fence: fence, Add: add, Remove: remove, By: by}, nil
	})
	return changed, err
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
	why    string
	spared []string
}

// BeginRevoke records why a lease is about to be revoked. If its process ends before
// Revoke, the ledger revokes the lease for that reason instead of releasing it.
// BeginRevoke returns false if the lease has ended.
func (l *Ledger) BeginRevoke(k lease.Key, fence uint64, why string, spared []string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.book.Standing(k, fence)
	if held == nil || held.Fence != fence {
		return false
	}
	l.revoking[fence] = revocation{why, spared}
	return true
}

// Bind binds a lease of one process to another process of the user who asks.
// From then on the lease ends with the new process, and no longer with the old
// one. A fence of zero matches any fence.
func (l *Ledger) Bind(ctx context.Context, name lease.Name, fence uint64, pid int, by access.Actor) (*lease.Lease, error) {
	next, err := l.census.successor(pid, by)
	if err != nil {
		return nil, fmt.Errorf("bind %s: %w", name, err)
	}
	_, bound, err := l.change(ctx, &by, access.Bind, name, fence, func(k lease.Key) (lease.Change, error) {
		return lease.Bind{Key: k, Fence: fence, By: by, PID: next.PID, Start: next.Start, Boot: l.boot}, nil
	})
	if err != nil {
		return nil, err
	}
	return l.watchBound(bound, next)
}

// watchBound has a lease end with the process that it was bound to.
func (l *Ledger) watchBound(bound *lease.Lease, to process.ID) (*lease.Lease, error) {
	err := l.holders.watch(bound)
	switch {
	case errors.Is(err, process.ErrGone):
		l.holders.exited(to, false)
		return nil, fmt.Errorf("bind %s: %w, so the lease has ended", bound.ID, err)
	case err != nil: // for example too many open files
		l.holders.watchLater(bound)
	}
	return bound, nil
}

// Hand binds a lease to the process that the daemon has started for it. A lease that is
// bound to it already stays as it is. For one that is about to be revoked Hand returns
// lease.ErrUnknown: whoever ends its processes may have looked for them already.
func (l *Ledger) Hand(ctx context.Context, k lease.Key, fence uint64, to process.ID) (*lease.Lease, error) {
	var bound *lease.Lease
	before := false
	err := l.submit(ctx, func(now time.Time) error {
		held := l.book.Standing(k, fence)
		if held != nil && held.Over(now) {
			return fmt.Errorf("hand %s over: %w: %s", k.ID, lease.ErrUnknown, held.OverrunText())
		}
		if before = held != nil && held.Fence == fence && held.Binding == lease.ByProcess && processOf(held) == to; before {
			bound = held
			return nil
		}
		e, err := l.apply(lease.Bind{Key: k, Fence: fence, By: access.Daemon(), PID: to.PID, Start: to.Start, Boot: l.boot}, now)
		bound = e.After
		return err
	})
	if err != nil || before {
		return bound, err
	}
	return l.watchBound(bound, to)
}

// revokeIfAlone turns the notice that a lease has to end into its revocation, if the
// ledger is alone: then nobody else ends its processes.
func (s *state) revokeIfAlone(c lease.Change, alone bool) lease.Change {
	over, is := c.(lease.Overrun)
	if !is || !alone {
		return c
	}
	held := s.book.Lease(over.Key)
	if held == nil {
		return c
	}
	return lease.Revoke{Key: over.Key, Fence: over.Fence, By: access.Daemon(), Why: held.OverrunText()}
}
