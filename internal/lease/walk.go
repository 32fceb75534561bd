package lease

import (
	"cmp"
	"iter"
	"math"
	"slices"
)

// AnyLoad is a bound that every load is within.
var AnyLoad = Load{math.MaxInt64, math.MaxInt}

// noLoad is a load that no request has.
var noLoad = Load{-1, -1}

// Walk goes through the waiting requests in the order of the queue: higher
// priority first, then the user with the smaller share of the machine in use,
// then the service with the smaller share, then the older request. SetShares puts
// another share in the place of the user's. Book.Walk begins a walk; it is valid
// until the book changes.
//
// A walk does not sort the queue. It takes the first request of each lane with the
// highest priority, and then only looks at the lanes that it goes on with, until
// it comes to the next priority. A lane has the requests of one user and one
// service with the same priority, parent and constraints.
type Walk struct {
	book   *Book
	lanes  []position // of the present priority: a binary heap with the first one in the queue on top
	levels []*level   // of lower priorities
}

// position is a waiter in the queue, with what decides about its place there.
type position struct {
	priority                int
	userShare, serviceShare float64
	lane                    *lane
	waiter                  *waiter
}

// Walk makes w go through the queue from its front.
func (b *Book) Walk(w *Walk) {
	clear(w.lanes)
	w.book, w.lanes, w.levels = b, w.lanes[:0], b.queue.levels
	w.descend()
}

// descend goes on to the next priority when all lanes of the present one are left.
func (w *Walk) descend() {
	if len(w.lanes) > 0 || len(w.levels) == 0 {
		return
	}
	for _, l := range w.levels[0].lanes {
		w.lanes = append(w.lanes, w.book.position(l, l.root.next(nil, AnyLoad, noLoad)))
	}
	w.levels = w.levels[1:]
	for i := len(w.lanes)/2 - 1; i >= 0; i-- {
		w.sink(i)
	}
}

func (b *Book) position(l *lane, at *waiter) position {
	return position{l.key.priority, l.key.share.Or(b.share(l.user.Usage)), b.share(l.service.Usage), l, at}
}

// Request returns the request at hand; nil if the walk is over.
func (w *Walk) Request() *Request {
	if len(w.lanes) == 0 {
		return nil
	}
	return w.lanes[0].waiter.request
}

// Lane returns the least and the most load and the largest total of all requests in the
// lane of the request at hand.
func (w *Walk) Lane() (least, most Load, total Usage) {
	root := w.lanes[0].lane.root
	return root.least, root.most, root.total
}

// Next goes on to the next request. It leaves out the requests in the lane of the
// one at hand that ask for more than most on a device.
func (w *Walk) Next(most Load) { w.next(most, noLoad) }

// NextOther does what Next does, and also leaves out the requests in the lane that
// ask for as much as the one at hand.
func (w *Walk) NextOther(most Load) { w.next(most, w.Request().Load()) }

func (w *Walk) next(most, but Load) {
	first := &w.lanes[0]
	if first.waiter = first.lane.root.next(first.waiter, most, but); first.waiter == nil {
		w.Leave()
		return
	}
	w.sink(0)
}

// Leave goes on to the next request outside of the lane of the one at hand, and
// leaves out the rest of that lane.
func (w *Walk) Leave() {
	last := len(w.lanes) - 1
	w.lanes[0], w.lanes[last] = w.lanes[last], position{}
	if w.lanes = w.lanes[:last]; last > 0 {
		w.sink(0)
	}
	w.descend()
}

// IsBefore reports whether the request at hand is before r in the queue. Every
// request is before one that does not wait.
func (w *Walk) IsBefore(r *Request) bool {
	waiter := w.book.waiting.get(r.Key())
	if waiter == nil || waiter.request != r {
		return true
	}
	at := w.book.position(waiter.lane, waiter)
	return w.book.before(&w.lanes[0], &at)
}

// Passable reports whether a request that comes later, with the same priority, may have its
// place before a waiting one: that of a user or a service with a smaller share.
func (b *Book) Passable(r *Request) bool {
	w := b.waiting.get(r.Key())
	if w == nil || w.request != r {
		return false
	}
	at := b.position(w.lane, w)
	return at.userShare > 0 || at.serviceShare > 0
}

// sink moves a position down the heap to where it belongs.
func (w *Walk) sink(i int) {
	moved := w.lanes[i]
	for {
		below := 2*i + 1
		if below >= len(w.lanes) {
			break
		}
		if next := below + 1; next < len(w.lanes) && w.book.before(&w.lanes[next], &w.lanes[below]) {
			below = next
		}
		if !w.book.before(&w.lanes[below], &moved) {
			break
		}
		w.lanes[i] = w.lanes[below]
		i = below
	}
	w.lanes[i] = moved
}

// before reports whether a position is before another one in the queue.
func (b *Book) before(p, other *position) bool {
	b.queue.work++
	if c := p.compareLanes(other); c != 0 {
		return c < 0
	}
	return p.waiter.older(other.waiter)
}

// compareLanes compares positions by all but their age.
func (p *position) compareLanes(other *position) int {
	return cmp.Or(
		cmp.Compare(other.priority, p.priority),
		cmp.Compare(p.userShare, other.userShare),
		cmp.Compare(p.serviceShare, other.serviceShare),
	)
}

// Waiting lists the waiting requests in the order of the queue, see Walk. The
// slice belongs to the book and is valid until the next change.
func (b *Book) Waiting() []*Request {
	q := &b.queue
	if !q.stale {
		return q.requests
	}
	lanes := make([]position, 0, len(q.lanes))
	for _, l := range q.lanes {
		lanes = append(lanes, b.position(l, nil))
	}
	slices.SortFunc(lanes, func(p, q position) int { return p.compareLanes(&q) })
	clear(q.requests)
	q.requests, q.stale = q.requests[:0], false
	var alike []*waiter // of lanes between which only age decides
	for i := range lanes {
		alike = lanes[i].lane.root.list(alike)
		if i+1 < len(lanes) && lanes[i].compareLanes(&lanes[i+1]) == 0 {
			continue
		}
		slices.SortFunc(alike, (*waiter).compareAge)
		for _, w := range alike {
			q.requests = append(q.requests, w.request)
		}
		alike = alike[:0]
	}
	return q.requests
}

// Queue yields the waiting requests in the order of the queue, each with its
// arrival: a number that grows with every request and that no other one has.
func (b *Book) Queue() iter.Seq2[uint64, *Request] {
	return func(yield func(uint64, *Request) bool) {
		for _, r := range b.Waiting() {
			if !yield(r.Arrival, r) {
				return
			}
		}
	}
}

// Sort sorts waiting requests in the order of the queue.
func (b *Book) Sort(requests []*Request) {
	order := make([]position, len(requests))
	for i, r := range requests {
		w := b.waiting.get(r.Key())
		order[i] = b.position(w.lane, w)
	}
	slices.SortFunc(order, func(p, q position) int {
		return cmp.Or(p.compareLanes(&q), p.waiter.compareAge(q.waiter))
	})
	for i := range order {
		requests[i] = order[i].waiter.request
	}
}

// Position returns the place of a waiting request in the queue, counted from one;
// zero if it does not wait.
func (b *Book) Position(r *Request) int {
	w := b.waiting.get(r.Key())
	if w == nil || w.request != r {
		return 0
	}
	n, own := 1, b.position(w.lane, w)
	for _, l := range b.queue.lanes {
		its := b.position(l, nil)
		switch c := its.compareLanes(&own); {
		case c < 0:
			n += l.root.size
		case c == 0:
			n += l.root.countOlder(w)
		}
	}
	return n
}
