package ledger

import (
	"slices"
	"time"

	"github.com/berth-gpu/berth/internal/lease"
)

// An implied lease settles when its processes are measured, and a detached one is kept
// for as long as they are. Observe records which leases are in use, and the clerk changes
// the book. If a change is not written now, the next sample records the use again.

// noteUse records the implied leases that are in use on a device, where that changes
// something, and reports whether there are any. The caller holds mu.
func (s *state) noteUse(o *observed, now time.Time) bool {
	found := false
	for k := range o.owned {
		held := s.book.Lease(k)
		if held == nil || !held.Implied {
			continue
		}
		// A detached lease is kept about once a minute, not with every sample.
		if held.Binding == lease.ByProcess || held.Expires.Sub(now) <= held.TTL*9/10 {
			s.inUse[k] = held.Fence
			found = true
		}
	}
	return found
}

// tend settles or keeps the implied leases that are in use. The caller holds mu.
func (h *holders) tend(now time.Time) {
	for k, fence := range h.l.inUse {
		if held := h.l.book.Lease(k); held != nil && held.Binding == lease.ByTTL {
			_, _ = h.l.apply(lease.Keep{Key: k, Fence: fence}, now) // it may have ended
		} else {
			_, _ = h.l.apply(lease.Settle{Key: k, Fence: fence}, now)
		}
	}
	clear(h.l.inUse)
}

// keepIfUsed turns the end of a detached lease that is still in use into its
// renewal. That happens if no sample came for a while: the device does not
// answer, or monitoring is stopped. The caller holds mu.
func (s *state) keepIfUsed(c lease.Change) lease.Change {
	due, ends := c.(lease.Expire)
	if !ends {
		return c
	}
	held := s.book.Lease(due.Key)
	if held == nil || !held.Implied {
		return c
	}
	for _, p := range held.Parts {
		if o := s.devices[p.GPU]; o != nil && o.uses(held) {
			return lease.Keep{Key: held.Key(), Fence: held.Fence}
		}
	}
	return c
}

// uses reports whether a process of a lease was measured on the device, also where an older
// lease of the process is charged for all of its memory.
func (o *observed) uses(held *lease.Lease) bool {
	_, here := o.owned[held.Key()]
	return here
}

// left reports whether nobody uses a lease any more: it is detached, and none of its
// processes is measured. Where nothing was measured yet, nobody knows. The caller holds mu.
func (s *state) left(held *lease.Lease) bool {
	if _, revoking := s.revoking[held.Fence]; revoking || held.Cancelled != nil {
		return false
	}
	return held.Implied && held.Binding == lease.ByTTL && held.State == lease.Active &&
		!slices.ContainsFunc(held.Parts, func(p lease.Part) bool {
			o := s.devices[p.GPU]
			return o == nil || o.Sample == nil || o.uses(held)
		})
}

// takeOver releases the lease that a process has left, for another process of the same user
// that asks for its id again. The next one has a new fence, so that nobody who knows the
// old one acts on it. If the request is refused, the error undoes the call, and the lease
// stands as it was. The caller holds mu.
func (s *state) takeOver(r *lease.Request, now time.Time) (*lease.Lease, error) {
	if r.Again == lease.Once || r.Binding != lease.ByProcess {
		return nil, nil
	}
	held := s.book.Lease(r.Key())
	if held == nil || !s.left(held) {
		return nil, nil
	}
	_, err := s.apply(lease.Release{Key: held.Key(), Fence: held.Fence, By: r.By, Why: "its process ended, and another one asked for its id again"}, now)
	return held, err
}

// placeAsBefore grants a request the place of the lease that it took over. That delays
// nobody in the queue, because it has no more than was held there, and no longer. It returns
// nil if the request asks for more, for another place, or under another service, for whose
// quota others may wait. The caller holds mu.
func (l *Ledger) placeAsBefore(left *lease.Lease, r *lease.Request, now time.Time) (*lease.Lease, error) {
	was, where := left.Parts[0], r.Where.GPU
	ends, limited := left.Ends()
	switch {
	case limited && (r.TimeLimit == 0 || now.Add(r.TimeLimit).After(ends)):
		return nil, nil
	case len(left.Parts) > 1 || r.GPUs > 1 || left.Parent != "" || r.Parent != "" || r.Exclusive || r.Holder.Service != left.Holder.Service:
		return nil, nil
	case r.Memory > was.Memory || r.Slots > was.Slots || where != "" && where != was.GPU:
		return nil, nil
	}
	defer func() { r.Where.GPU = where }()
	r.Where.GPU = was.GPU
	return l.place(r, nil, now)
}

// keepDetached renews every detached lease: while the daemon was away, nobody
// measured its processes. It runs before the clerk takes its first call.
func (h *holders) keepDetached() {
	h.l.mu.RLock()
	standing := h.l.book.Leases()
	h.l.mu.RUnlock()
	var batch []*call
	for _, each := range standing {
		if each.Implied && each.Binding == lease.ByTTL {
			batch = append(batch, &call{do: func(now time.Time) error {
				_, err := h.l.apply(lease.Keep{Key: each.Key(), Fence: each.Fence}, now)
				return err
			}})
		}
	}
	if batch != nil {
		h.l.work(batch)
	}
}
