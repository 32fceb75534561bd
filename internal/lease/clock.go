package lease

import (
	"time"

	"github.com/berth-gpu/berth/internal/lease/queue"
)

// The book knows times of the wall. When somebody sets that clock, they move with it, so
// that everything stays as far away as it was.

// Shift moves all times in the book by as much as the clock was set. Requests do not change
// once they are in the book: Shift returns those that are there now by those that were.
func (b *Book) Shift(by time.Duration) map[*Request]*Request {
	for e := range b.grants.all {
		l := *e.lease
		move(by, append(l.times(), &e.overrun)...)
		b.replace(e, &l)
	}
	moved := make(map[*Request]*Request, b.waiting.count)
	was := b.queue
	b.queue = queue.New[lane, *Request](b.rank)
	for _, before := range was.All() {
		w, r := b.waiting.get(before.Key()), *before
		move(by, &r.Since, &r.Requested, &r.Deadline, &r.Until)
		moved[before], w.request = &r, &r
		b.queue.Add(b.lane(&r), r.inQueue())
		b.alarms.move(&w.alarm, r.Deadline)
	}
	return moved
}

// move moves those times that are set.
func move(by time.Duration, times ...*time.Time) {
	for _, t := range times {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
}

// Clamp moves times back to now that are after it, because they were written while the clock
// was ahead: nothing began later than now, and no lease lasts longer than after a renewal.
// It reports whether there were any.
func (b *Book) Clamp(now time.Time) (any bool) {
	for e := range b.grants.all {
		l, changed := *e.lease, false
		for _, t := range l.times() {
			latest := now
			if t == &l.Expires {
				latest = now.Add(l.TTL)
			}
			if t.After(latest) {
				*t, changed = latest, true
			}
		}
		if changed {
			b.replace(e, &l)
		}
		any = any || changed
	}
	return any
}

// times returns the times in a lease, for the caller to change: the lease is a copy.
func (l *Lease) times() []*time.Time {
	all := []*time.Time{&l.Granted, &l.Expires, &l.ParkedAt, &l.Returned}
	if l.Cancelled != nil {
		c := *l.Cancelled
		l.Cancelled = &c
		all = append(all, &c.At)
	}
	return all
}
