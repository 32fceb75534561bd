// Package queue knows who is next: the order of the requests that wait for a machine, and
// who may go before whom.
//
// A Queue keeps them in lanes and a Walk goes through them, the first one first. Passing
// answers whether a request could make one ahead of it wait longer on a device.
//
// Pure: no clock, no I/O.
package queue

import (
	"cmp"
	"slices"
)

// Queue has requests of type R that wait, in lanes. The requests of a lane have all in
// common that L says, and with it their rank, so they differ in their place only by age.
// Ranks change with every grant and every end of a lease, and move whole lanes: so the
// order of the lanes is found when somebody asks for it, and that in a lane stays.
type Queue[L, R comparable] struct {
	Work int // comparisons of requests, requests that were passed over or added up, and steps of Passing so far

	rank  func(*L) Rank
	lanes map[L]*lane[L, R]
	list  []*lane[L, R] // all lanes, in no order
	waits map[R]*place[L, R]

	all   []R // for All, unless stale
	stale bool
}

// New returns an empty queue. Rank returns the present rank of a lane.
func New[L, R comparable](rank func(*L) Rank) *Queue[L, R] {
	return &Queue[L, R]{rank: rank, lanes: map[L]*lane[L, R]{}, waits: map[R]*place[L, R]{}}
}

// Rank says where a lane is in the queue: first by priority, the highest first; then by the
// shares of the machine that its user and its service have in use, the smallest first.
type Rank struct {
	Priority      int
	User, Service float64
}

func (r Rank) compare(other Rank) int {
	return cmp.Or(cmp.Compare(other.Priority, r.Priority), cmp.Compare(r.User, other.User), cmp.Compare(r.Service, other.Service))
}

// Entry is a request with what matters of it in its lane.
type Entry[R any] struct {
	Request R
	Since   int64  // since when it waits, in nanoseconds; the smallest is first
	Arrival uint64 // orders requests of the same time; no two have the same
	Load    Load   // on each of its devices
	Total   Load   // over all of them
}

// Bounds are the least and the most load on a device of some requests, and their largest
// total, or go beyond those: they are not computed again whenever one of many has left.
type Bounds struct{ Least, Most, Total Load }

func (b Bounds) with(load, total Load) Bounds {
	return Bounds{b.Least.Smaller(load), b.Most.Larger(load), b.Total.Larger(total)}
}

// lane has requests, the oldest first.
type lane[L, R comparable] struct {
	key    L
	at     int // index in Queue.list
	places []*place[L, R]
	bounds Bounds
	left   int // how many requests have left since bounds were computed, and how often somebody has asked for them since
}

// place is a request in its lane.
type place[L, R comparable] struct {
	Entry[R]
	lane *lane[L, R]
}

func (p *place[L, R]) compareAge(other *place[L, R]) int {
	return cmp.Or(cmp.Compare(p.Since, other.Since), cmp.Compare(p.Arrival, other.Arrival))
}

func (l *lane[L, R]) find(p *place[L, R]) int {
	at, _ := slices.BinarySearchFunc(l.places, p, (*place[L, R]).compareAge)
	return at
}

// bounds returns the bounds of a lane. It computes them again when that costs little for each
// request that has left and each time somebody has asked.
func (q *Queue[L, R]) bounds(l *lane[L, R]) Bounds {
	if l.left > 0 {
		l.left++
	}
	if l.left > len(l.places)/16 {
		q.Work += len(l.places)
		l.bounds, l.left = Bounds{Least: AnyLoad}, 0
		for _, p := range l.places {
			l.bounds = l.bounds.with(p.Load, p.Total)
		}
	}
	return l.bounds
}

// Add puts a request into a lane.
func (q *Queue[L, R]) Add(key L, e Entry[R]) {
	l := q.lanes[key]
	if l == nil {
		l = &lane[L, R]{key: key, at: len(q.list), bounds: Bounds{Least: AnyLoad}}
		q.lanes[key], q.list = l, append(q.list, l)
	}
	p := &place[L, R]{e, l}
	l.places = slices.Insert(l.places, l.find(p), p)
	l.bounds = l.bounds.with(e.Load, e.Total)
	q.waits[e.Request] = p
	q.stale = true
}

// Remove takes a request out of the queue.
func (q *Queue[L, R]) Remove(r R) {
	p := q.waits[r]
	delete(q.waits, r)
	l, at := p.lane, p.lane.find(p)
	l.places = slices.Delete(l.places, at, at+1)
	l.left++
	if last := len(q.list) - 1; len(l.places) == 0 {
		q.list[l.at], q.list[last].at = q.list[last], l.at
		q.list[last], q.list = nil, q.list[:last]
		delete(q.lanes, l.key)
	}
	q.stale = true
}

// Moved says that the ranks of lanes have changed.
func (q *Queue[L, R]) Moved() { q.stale = true }

// Lane returns the lane of a request and its rank; false if the request does not wait.
func (q *Queue[L, R]) Lane(r R) (key L, rank Rank, waits bool) {
	p := q.waits[r]
	if p == nil {
		return key, rank, false
	}
	return p.lane.key, q.rank(&p.lane.key), true
}

// Compare compares the places of two requests. Every request is before one that does not
// wait.
func (q *Queue[L, R]) Compare(a, b R) int {
	p, other := q.waits[a], q.waits[b]
	if other == nil {
		return -1
	}
	q.Work++
	return cmp.Or(q.rank(&p.lane.key).compare(q.rank(&other.lane.key)), p.compareAge(other))
}

// All lists the requests in the order of the queue, see Walk. The slice belongs to the
// queue and is valid until the next change.
func (q *Queue[L, R]) All() []R {
	if !q.stale {
		return q.all
	}
	heads := make([]head[L, R], 0, len(q.waits))
	for _, l := range q.list {
		rank := q.rank(&l.key)
		for _, p := range l.places {
			heads = append(heads, head[L, R]{rank: rank, place: p})
		}
	}
	slices.SortFunc(heads, func(a, b head[L, R]) int {
		q.Work++
		return a.compare(&b)
	})
	clear(q.all)
	q.all, q.stale = q.all[:0], false
	for _, h := range heads {
		q.all = append(q.all, h.Request)
	}
	return q.all
}

// Position returns the place of a request in the queue, counted from one; zero if it does
// not wait.
func (q *Queue[L, R]) Position(r R) int {
	p := q.waits[r]
	if p == nil {
		return 0
	}
	n, own := 1, q.rank(&p.lane.key)
	for _, l := range q.list {
		switch c := q.rank(&l.key).compare(own); {
		case c < 0:
			n += len(l.places)
		case c == 0:
			n += l.find(p)
		}
	}
	return n
}

// Least returns a lower bound on the memory and the slots that a request in the queue
// asks for on a device.
func (q *Queue[L, R]) Least() Load {
	least := AnyLoad
	for _, l := range q.list {
		least = least.Smaller(q.bounds(l).Least)
	}
	return least
}
