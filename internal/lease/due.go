package lease

import (
	"cmp"
	"container/heap"
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
	case l.Cancelled != nil && e.overrun.IsZero():
		return l.Cancelled.At, overruns
	case l.Cancelled != nil:
		return e.overrun.Add(overrunAgain), overruns
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

// alarm is the time at which something is due for a lease or a request. It is set
// while it is in alarms.
type alarm struct {
	at      time.Time
	key     *Key
	waiting bool // a request, not a lease
	place   int  // in the heap, counted from one; zero if the alarm is not in it
}

// isSet reports whether the alarm is in alarms.
func (a *alarm) isSet() bool { return a.place > 0 }

// alarms is a heap with the earliest alarm first. Each alarm knows its place, so remove is
// as quick as add.
type alarms []*alarm

// Len, Less, Swap, Push and Pop are for package heap.
func (h alarms) Len() int           { return len(h) }
func (h alarms) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

func (h alarms) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i+1, j+1
}

func (h *alarms) Push(x any) {
	a := x.(*alarm)
	*h = append(*h, a)
	a.place = len(*h)
}

func (h *alarms) Pop() any {
	last := len(*h) - 1
	a := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	a.place = 0
	return a
}

// next returns the earliest time; false if there is none.
func (h alarms) next() (time.Time, bool) {
	if len(h) == 0 {
		return time.Time{}, false
	}
	return h[0].at, true
}

// due lists the alarms that are due, in no order.
func (h alarms) due(now time.Time) []*alarm { return h.dueBelow(now, 0, nil) }

// dueBelow appends the alarms at or below i in the heap that are due. No alarm is
// earlier than the one above it, so dueBelow stops at the first that is not due.
func (h alarms) dueBelow(now time.Time, i int, list []*alarm) []*alarm {
	if i >= len(h) || now.Before(h[i].at) {
		return list
	}
	list = append(list, h[i])
	list = h.dueBelow(now, 2*i+1, list)
	return h.dueBelow(now, 2*i+2, list)
}

// add adds an alarm that is not set.
func (h *alarms) add(a *alarm) { heap.Push(h, a) }

// remove removes an alarm, if it is set.
func (h *alarms) remove(a *alarm) {
	if a.isSet() {
		heap.Remove(h, a.place-1)
	}
}

// move sets an alarm to another time.
func (h *alarms) move(a *alarm, at time.Time) {
	a.at = at
	heap.Fix(h, a.place-1)
}
