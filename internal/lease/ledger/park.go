package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/process/kinship"
	"github.com/berth-gpu/berth/internal/when"
)

// Unparkable returns why a lease cannot be parked, or why its service does not allow it,
// or nil if it can. A fence of zero matches any fence.
func (l *Ledger) Unparkable(k lease.Key, fence uint64) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if err := l.book.Unparkable(k, fence); err != nil {
		return err
	}
	return l.mayPark(l.book.Standing(k, fence))
}

// Unshared reports whether the owner of a lease or its service says that its
// processes share no GPU memory.
func (l *Ledger) Unshared(held *lease.Lease) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	service := l.settings.Services[held.Holder.Service]
	return service.SharesNothing(held)
}

// mayPark returns an error for a lease that its service keeps from being parked, and for
// one that outlives its process: no process on the device would keep it. The caller holds
// mu.
func (l *Ledger) mayPark(held *lease.Lease) error {
	if l.holders.keptBy(held) != 0 {
		return fmt.Errorf("park %s: %w: its process has ended, and only those that it left on the device keep it", held.ID, lease.ErrUnparkable)
	}
	service := l.settings.Services[held.Holder.Service]
	return service.MayPark(held)
}

// ParkMandate returns the mandate by which an actor parks a lease. When berth parks by
// itself, that is a policy if the service of the lease says so, or the operator who gave it a
// scope; if only the request of a user does, berth parks the lease in the name of its user.
func (l *Ledger) ParkMandate(k lease.Key, by access.Actor) kinship.Mandate {
	l.mu.RLock()
	defer l.mu.RUnlock()
	held := l.book.Lease(k)
	if held == nil {
		return kinship.Mandate{}
	}
	policy := l.settings.Services[held.Holder.Service].Parkable.Or(false) || len(held.Scope) > 0 && held.Allows(lease.MayPark)
	if in := kinship.MandateOf(by); in.All && (by.Door != access.Itself || policy) {
		return in
	}
	return kinship.OfUser(held.Holder.UID)
}

// Park records that the memory of a lease was moved off its device. The caller has moved
// it and has measured that it is gone: from now on others get it.
func (l *Ledger) Park(ctx context.Context, k lease.Key, fence uint64, by access.Actor, why string) (*lease.Lease, error) {
	var parked *lease.Lease
	err := l.submitFor(ctx, by, func(now time.Time) error {
		e, err := l.apply(lease.Park{Key: k, Fence: fence, By: by, Why: why}, now)
		if err != nil {
			return err
		}
		parked = e.After
		if err = l.mayPark(parked); err == nil { // else the error undoes the change
			l.vacate(parked)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return parked, nil
}

// Return gives a parked lease its memory and slots again, and returns when it has them;
// the caller then moves its memory back. The lease waits in the queue, by its priority
// and by the share of its user, and its age counts from since. It waits at most wait: not
// at all if wait is zero, and until ctx or the lease ends if wait is absent. A lease that
// was parked to make room for a request should ask to return only when that request has
// its room, because the lease may be before the request in the queue.
func (l *Ledger) Return(ctx context.Context, k lease.Key, fence uint64, by access.Actor, why string, since time.Time, wait gpu.Opt[time.Duration]) (*lease.Lease, error) {
	return l.into(ctx, by, func(now time.Time) (*lease.Lease, *lease.Request, error) {
		held, err := l.book.Find(access.Resume, k, fence, &by)
		switch {
		case err != nil:
			return nil, nil, err
		case held.State != lease.Parked:
			return nil, nil, fmt.Errorf("resume %s: %w: it is %s", k.ID, lease.ErrState, string(held.State))
		case l.book.Request(held.Key()) != nil:
			return nil, nil, fmt.Errorf("resume %s: %w", k.ID, lease.ErrAsked)
		}
		r := held.Returning()
		r.By, r.Why, r.Requested, r.Deadline = by, why, when.Stored(since), now.Add(max(wait.Or(forever), 0))
		if since.IsZero() || since.After(now) {
			r.Requested = now
		}
		return l.decide(&r, now)
	})
}

// forever is how long a parked lease waits to return by default.
const forever = 100 * 365 * 24 * time.Hour

// into changes an existing lease, now or when there is room. Do makes the change, or puts
// a request for it into the queue and returns the request.
func (l *Ledger) into(ctx context.Context, by access.Actor, do func(now time.Time) (*lease.Lease, *lease.Request, error)) (*lease.Lease, error) {
	var changed *lease.Lease
	var w *waiter
	err := l.submitFor(ctx, by, func(now time.Time) error {
		w = nil // the call may run twice
		var r *lease.Request
		var err error
		if changed, r, err = do(now); err == nil && changed == nil {
			w, err = l.expect(r)
		}
		return err
	})
	if err == nil && w != nil {
		changed, err = l.await(ctx, w)
	}
	if err != nil {
		return nil, err
	}
	return changed, nil
}

// enlarge gives a lease what a request for it asks for, if that fits without delaying the
// requests before it. Otherwise it returns a nil lease. The caller holds mu.
func (l *Ledger) enlarge(r *lease.Request, before *placement.Ahead, now time.Time) (*lease.Lease, error) {
	more := *r
	more.Memory = l.book.Lacks(r)
	more.Least = more.Memory
	var fits bool
	if l.chosen, fits = placement.Choose(l.snapshot, &more, l.behind(&more, before), l.chosen[:0]); !fits {
		return nil, nil
	}
	change := lease.Change(lease.Resume{Key: r.Key(), Fence: r.Into, By: r.By, Why: r.Why})
	if r.Size > 0 {
		change = lease.Resize{Key: r.Key(), Fence: r.Into, Memory: r.Size, By: r.By, Why: r.Why}
	}
	e, err := l.apply(change, now)
	return e.After, err
}

// vacate removes the processes of a parked lease from its devices, with the memory
// that was last measured for them. The caller holds mu.
func (s *state) vacate(parked *lease.Lease) {
	for _, p := range parked.Parts {
		o := s.devices[p.GPU]
		if o == nil {
			continue
		}
		here := s.standing.holdings(p.GPU)
		s.forget(o, func(yield func(*usedBy) bool) {
			for _, u := range o.used {
				if owners, _ := here.of(u.Process); len(owners) == 1 && owners[0].Lease == parked && !yield(u) {
					return
				}
			}
		})
	}
}
