package runs

import (
	"time"

	"github.com/berth-gpu/berth/internal/lease"
)

// party is a user on a GPU.
type party struct {
	lease.Owner
	uuid string
}

// standing holds how many records a user may count on a GPU.
type standing struct {
	held      time.Time // when the user last held a lease there
	filled    time.Time // when allowance was last filled up
	allowance float64   // records that may be counted
}

// The most records that a user may count on a GPU: the fastest runs measured did less
// than a tenth of it.
const (
	recordsPerSecond = 10_000_000
	firstAllowance   = recordsPerSecond // for a user who has not counted any yet
	mostAllowance    = 10 * recordsPerSecond
)

// Ended records that a lease has ended. A runner gives its leases back before
// its last report, so its user may still count for a moment.
func (r *Runs) Ended(l *lease.Lease, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range l.Parts {
		r.seen(party{l.Holder.Owner(), p.GPU}, at)
	}
}

// seen records that a user held a lease on a GPU at that time. The caller holds
// the lock.
func (r *Runs) seen(p party, at time.Time) {
	s := r.standings[p]
	if s == nil {
		for other, s := range r.standings { // drop those that have no effect any more
			if at.Sub(s.held) > Silence {
				delete(r.standings, other)
			}
		}
		s = &standing{filled: at, allowance: firstAllowance}
		r.standings[p] = s
	}
	s.held = at
}

// standing returns what a user may count on a GPU now, or nil if the user has
// held no lease there for a while. The caller holds the lock.
func (r *Runs) standing(owner lease.Owner, uuid string, holds bool, now time.Time) *standing {
	p := party{owner, uuid}
	if holds {
		r.seen(p, now)
	}
	s := r.standings[p]
	if s == nil || now.Sub(s.held) > Silence {
		return nil
	}
	s.allowance = min(s.allowance+max(now.Sub(s.filled).Seconds(), 0)*recordsPerSecond, mostAllowance)
	s.filled = now
	return s
}

// take returns how many of the records count, and takes them from the
// allowance. The allowance grows with time, up to ten seconds' worth, so that
// runners may report as often or as rarely as they like.
func (s *standing) take(records uint64) uint64 {
	n := min(records, uint64(s.allowance))
	s.allowance -= float64(n)
	return n
}
