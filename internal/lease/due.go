package lease

import (
	"cmp"
	"slices"
	"time"
)

// Due lists what has come due by now, earliest first, as changes to apply:
// Expire, Settle, Warn or Overrun for leases, TimeOut for requests.
func (b *Book) Due(now time.Time) []Change {
	due := b.alarms.due(now)
	slices.SortFunc(due, func(a, b *alarm) int {
		return cmp.Or(a.at.Compare(b.at), a.key.compare(*b.key))
	})
	var changes []Change
	for _, a := range due {
		if a.waiting {
			changes = append(changes, TimeOut{*a.key})
			continue
		}
		e := b.leases.get(*a.key)
		_, what := e.due()
		changes = append(changes, what.change(e.lease))
	}
	return changes
}

// event is something that becomes due for a lease.
type event int

const (
	nothing event = iota
	expires
	settles
	warns
	overruns
)

// change returns the change that an event makes to a lease.
func (w event) change(l *Lease) Change {
	switch w {
	case expires:
		return Expire{l.Key()}
	case settles:
		return Settle{Key: l.Key()}
	case warns:
		return Warn{l.Key(), l.Fence}
	}
	return Overrun{l.Key(), l.Fence}
}

// due returns the next event of a lease and the time at which it is due.
func (e *entry) due() (at time.Time, what event) {
	l := e.lease
	switch {
	case l.State == Parked:
		return at, nothing
	case l.Binding == ByTTL:
		at, what = l.Expires, expires
	case l.Binding == ByProcess && l.Implied:
		at, what = l.Granted.Add(Grace), settles
	}
	if l.TimeLimit == 0 {
		return at, what
	}
	ends, _ := l.Ends()
	next, then := ends, overruns
	switch {
	case !e.overrun.IsZero():
		next = e.overrun.Add(overrunAgain)
	case !e.warned:
		next, then = ends.Add(-warnAhead(l.TimeLimit)), warns
	}
	if what == nothing || next.Before(at) {
		return next, then
	}
	return at, what
}
