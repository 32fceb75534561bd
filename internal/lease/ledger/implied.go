package ledger

import (
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
	for k, memory := range o.owned {
		held := s.book.Lease(k)
		if memory == 0 || held == nil || !held.Implied {
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
		if o := s.devices[p.GPU]; o != nil && o.owned[held.Key()] > 0 {
			return lease.Keep{Key: held.Key(), Fence: held.Fence}
		}
	}
	return c
}

// keepDetached renews every detached lease: while the daemon was away, nobody
// measured its processes. It runs before the clerk takes its first errand.
func (h *holders) keepDetached() {
	h.l.mu.RLock()
	standing := h.l.book.Leases()
	h.l.mu.RUnlock()
	var batch []*errand
	for _, each := range standing {
		if each.Implied && each.Binding == lease.ByTTL {
			batch = append(batch, &errand{do: func(now time.Time) error {
				_, err := h.l.apply(lease.Keep{Key: each.Key(), Fence: each.Fence}, now)
				return err
			}})
		}
	}
	if batch != nil {
		h.l.work(batch)
	}
}
