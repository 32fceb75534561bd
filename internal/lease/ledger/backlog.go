package ledger

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

// backlog keeps work that failed and must be done: the journal refused it, or a
// process could not be watched. The clerk tries again until it succeeds. Each
// process and each lease is in the backlog at most once, so the backlog does not
// grow, however long that takes. The lock of the ledger guards it.
type backlog struct {
	ends      map[overdue]bool
	unwatched map[uint64]*lease.Lease // by fence: leases whose process is not watched yet
	fresh     bool                    // the clerk has not tried all of it yet
}

// overdue is a release that is not in the journal yet: of all leases of a
// process that has ended, or of one lease that must not stay.
type overdue struct {
	process process.ID
	lease   lease.Key // zero if all leases of the process are meant
	fence   uint64
	why     string

	unanswered bool // only if no other request has the lease as its answer
}

// endLater adds a release and wakes the clerk, unless it is in the backlog already. The
// caller holds mu.
func (h *holders) endLater(o overdue) {
	if !h.backlog.ends[o] {
		h.backlog.ends[o] = true
		h.backlog.fresh = true
		h.l.nudge()
	}
}

// keep drops the releases of leases that are the answers of later requests. The caller holds
// mu.
func (b *backlog) keep(regained []*lease.Lease) {
	maps.DeleteFunc(b.ends, func(o overdue, _ bool) bool {
		return slices.ContainsFunc(regained, func(held *lease.Lease) bool { return o.lease == held.Key() && o.fence == held.Fence })
	})
}

// releaseLater has the clerk release the leases of a process that has ended.
func (h *holders) releaseLater(id process.ID) {
	h.l.mu.Lock()
	defer h.l.mu.Unlock()
	h.endLater(overdue{process: id})
}

// watchLater has the clerk watch the process of a lease later, after watching failed for
// a reason outside the process, such as too many open files. The lease lasts meanwhile.
func (h *holders) watchLater(each *lease.Lease) {
	h.l.mu.Lock()
	defer h.l.mu.Unlock()
	h.backlog.unwatched[each.Fence] = each
	h.l.nudge()
}

// catchUp works on the backlog: at once if something in it is new, else once per
// retry interval. Only the clerk calls it.
func (h *holders) catchUp() {
	h.l.mu.Lock()
	fresh := h.backlog.fresh
	h.backlog.fresh = false
	ends := slices.Collect(maps.Keys(h.backlog.ends))
	unwatched := slices.Collect(maps.Values(h.backlog.unwatched))
	h.l.mu.Unlock()
	if len(ends)+len(unwatched) == 0 {
		return
	}
	if now := time.Now(); fresh || now.Sub(h.caughtUp) >= retry {
		h.caughtUp = now
		h.watchUnwatched(unwatched)
		h.endAll(ends)
	}
	h.l.mu.RLock()
	left := len(h.backlog.ends) + len(h.backlog.unwatched)
	h.l.mu.RUnlock()
	h.l.restless = h.l.restless || left > 0
}

func (h *holders) watchUnwatched(leases []*lease.Lease) {
	for _, each := range leases {
		err := h.watchAgain(each)
		gone := errors.Is(err, process.ErrGone)
		if err != nil && !gone {
			continue
		}
		h.l.mu.Lock()
		if h.backlog.unwatched[each.Fence] == each { // it may have got another holder meanwhile
			delete(h.backlog.unwatched, each.Fence)
		}
		if gone {
			h.endLater(overdue{process: processOf(each)})
		}
		h.l.mu.Unlock()
	}
}

// endAll does overdue releases, many at a time. When the journal refuses a group, endAll
// goes on one by one while the journal has room, and leaves the rest for later.
func (h *holders) endAll(all []overdue) {
	for n := maxBatch; len(all) > 0; {
		some := all[:min(n, len(all))]
		switch err := h.endSome(some); {
		case err == nil:
			all = all[len(some):]
			h.l.nudge() // a waiting request may fit now
		case n == 1:
			return
		default:
			n = 1
		}
	}
}

// endSome does overdue releases in one write. If it returns an error, all of them stay in
// the backlog.
func (h *holders) endSome(some []overdue) error {
	remaining := map[process.ID][]process.ID{}
	err := h.l.attempt(nil, func(now time.Time) {
		for _, o := range some {
			if h.l.keeps(&o) {
				continue
			}
			if o.lease != (lease.Key{}) {
				_, _ = h.l.apply(lease.Release{Key: o.lease, Fence: o.fence, By: access.Daemon(), Why: o.why}, now) // it may have ended already
				continue
			}
			if left := h.releaseIfUnused(o.process, now); len(left) > 0 {
				remaining[o.process] = left
				delete(h.backlog.ends, o) // from here on Observe may find that they have left
			}
		}
	})
	h.l.mu.Lock()
	for _, o := range some {
		if err != nil {
			h.backlog.ends[o] = true
		} else if remaining[o.process] == nil {
			delete(h.backlog.ends, o)
			delete(h.killed, o.process)
		}
	}
	h.l.mu.Unlock()
	if err == nil {
		for id, left := range remaining {
			h.follow(id, left)
		}
	}
	return err
}
