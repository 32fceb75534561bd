package ledger

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

// backlog holds what must not be left undone and could not be done at once: the
// journal refused it, or a process could not be watched. The clerk tries it
// again until it is done. Each process and each lease is in it at most once, so
// it does not grow however long that takes. The lock of the ledger guards it.
type backlog struct {
	ends      map[overdue]bool
	unwatched map[uint64]*lease.Lease // by fence: its process is to be watched
	fresh     bool                    // the clerk has not tried all of it yet
}

// overdue is an end that is not written down yet: of all leases of a process
// that has ended, or of one lease that must not stay.
type overdue struct {
	process process.ID
	lease   string // empty: it is about the process
	fence   uint64
	why     string
}

// endLater has the clerk end the leases of a dead process. The caller holds mu.
func (l *Ledger) endLater(id process.ID) { l.note(overdue{process: id}) }

// releaseLater has the clerk end a lease. The caller holds mu.
func (l *Ledger) releaseLater(unwanted *lease.Lease, why string) {
	l.note(overdue{lease: unwanted.ID, fence: unwanted.Fence, why: why})
}

// note adds an end and wakes the clerk, unless the clerk knows of it already.
func (l *Ledger) note(o overdue) {
	if !l.backlog.ends[o] {
		l.backlog.ends[o] = true
		l.backlog.fresh = true
		l.nudge()
	}
}

// watchLater has the clerk watch the process of a lease that could not be
// watched for a reason that is not its own, such as too many open files. The
// lease stands meanwhile.
func (l *Ledger) watchLater(each *lease.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.backlog.unwatched[each.Fence] = each
	l.nudge()
}

// catchUp works on the backlog: at once on what is new, and every now and then
// on what was tried before. Only the clerk calls it.
func (l *Ledger) catchUp() {
	l.mu.Lock()
	fresh := l.backlog.fresh
	l.backlog.fresh = false
	ends := slices.Collect(maps.Keys(l.backlog.ends))
	unwatched := slices.Collect(maps.Values(l.backlog.unwatched))
	l.mu.Unlock()
	if len(ends)+len(unwatched) == 0 {
		return
	}
	if now := time.Now(); fresh || now.Sub(l.caughtUp) >= retry {
		l.caughtUp = now
		l.watchAgain(unwatched)
		l.endAll(ends)
	}
	l.mu.RLock()
	left := len(l.backlog.ends) + len(l.backlog.unwatched)
	l.mu.RUnlock()
	l.restless = l.restless || left > 0
}

func (l *Ledger) watchAgain(leases []*lease.Lease) {
	for _, each := range leases {
		err := l.revive(each)
		gone := errors.Is(err, process.ErrGone)
		if err != nil && !gone {
			continue
		}
		l.mu.Lock()
		if l.backlog.unwatched[each.Fence] == each { // it may have got another holder meanwhile
			delete(l.backlog.unwatched, each.Fence)
		}
		if gone {
			l.endLater(processOf(each))
		}
		l.mu.Unlock()
	}
}

// endAll ends what is overdue, many at a time. When the journal refuses, it goes
// on one by one for as long as there is room, and leaves the rest for later.
func (l *Ledger) endAll(all []overdue) {
	for n := maxBatch; len(all) > 0; {
		some := all[:min(n, len(all))]
		switch err := l.endSome(some); {
		case err == nil:
			all = all[len(some):]
			l.nudge() // somebody may have waited for that
		case n == 1:
			return
		default:
			n = 1
		}
	}
}

// endSome ends what is overdue in one write. With an error all of it stays in
// the backlog.
func (l *Ledger) endSome(some []overdue) error {
	heirs := map[process.ID][]process.ID{}
	err := l.attempt(nil, func(now time.Time) {
		for _, o := range some {
			if o.lease != "" {
				_, _ = l.apply(lease.Release{ID: o.lease, Fence: o.fence, By: lease.Daemon(), Why: o.why}, now) // it may have ended already
				continue
			}
			if left := l.releaseEnded(o.process, now); len(left) > 0 {
				heirs[o.process] = left
				delete(l.backlog.ends, o) // from here on Observe may find that they have gone
			}
		}
	})
	l.mu.Lock()
	for _, o := range some {
		if err != nil {
			l.backlog.ends[o] = true
		} else if heirs[o.process] == nil {
			delete(l.backlog.ends, o)
		}
	}
	l.mu.Unlock()
	if err == nil {
		for id, left := range heirs {
			l.follow(id, left)
		}
	}
	return err
}
