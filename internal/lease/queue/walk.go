package queue

import "container/heap"

// Walk goes through the requests in the order of the queue: by the rank of their lanes, and
// between lanes of the same rank by age. Begin begins a walk; it is valid until the queue or
// a rank changes.
//
// A walk does not sort the queue. It begins with the first request of each lane, and then
// only looks at the lanes that it goes on with.
type Walk[L, R comparable] struct {
	queue *Queue[L, R]
	lanes heads[L, R]
}

// head is a request with what decides about its place in the queue.
type head[L, R comparable] struct {
	rank Rank
	*place[L, R]
	at int // index in lane.places
}

func (h *head[L, R]) compare(other *head[L, R]) int {
	if c := h.rank.compare(other.rank); c != 0 {
		return c
	}
	return h.compareAge(other.place)
}

// heads is a heap with the first one in the queue on top. It implements heap.Interface for
// what Walk does.
type heads[L, R comparable] struct {
	list []head[L, R]
	work *int
}

func (h *heads[L, R]) Len() int { return len(h.list) }
func (h *heads[L, R]) Less(i, j int) bool {
	*h.work++
	return h.list[i].compare(&h.list[j]) < 0
}
func (h *heads[L, R]) Swap(i, j int) { h.list[i], h.list[j] = h.list[j], h.list[i] }
func (h *heads[L, R]) Push(any)      {} // never called: all are there from the beginning
func (h *heads[L, R]) Pop() any {
	last := len(h.list) - 1
	h.list[last], h.list = head[L, R]{}, h.list[:last]
	return nil
}

// Begin makes w go through a queue from its front.
func (w *Walk[L, R]) Begin(q *Queue[L, R]) {
	clear(w.lanes.list)
	w.queue, w.lanes.list, w.lanes.work = q, w.lanes.list[:0], &q.Work
	for _, l := range q.list {
		w.lanes.list = append(w.lanes.list, head[L, R]{rank: q.rank(&l.key), place: l.places[0]})
	}
	heap.Init(&w.lanes)
}

// Request returns the request at hand; the zero value if the walk is over.
func (w *Walk[L, R]) Request() (r R) {
	if len(w.lanes.list) > 0 {
		r = w.lanes.list[0].Request
	}
	return r
}

// Bounds returns bounds of all requests in the lane of the one at hand.
func (w *Walk[L, R]) Bounds() Bounds { return w.queue.bounds(w.lanes.list[0].lane) }

// Next goes on to the next request. It leaves out the requests in the lane of the
// one at hand that ask for more than most on a device.
func (w *Walk[L, R]) Next(most Load) { w.next(most, Load{-1, -1}) }

// NextOther does what Next does, and also leaves out the requests in the lane that
// ask for as much as the one at hand.
func (w *Walk[L, R]) NextOther(most Load) { w.next(most, w.lanes.list[0].Load) }

func (w *Walk[L, R]) next(most, but Load) {
	h := &w.lanes.list[0]
	if bounds := w.queue.bounds(h.lane); !bounds.Least.Within(most) || bounds.Least == but && bounds.Most == but {
		w.Leave()
		return
	}
	for h.at++; h.at < len(h.lane.places); h.at++ {
		if h.place = h.lane.places[h.at]; h.Load.Within(most) && h.Load != but {
			heap.Fix(&w.lanes, 0)
			return
		}
		w.queue.Work++
	}
	w.Leave()
}

// Leave goes on to the next request outside of the lane of the one at hand, and
// leaves out the rest of that lane.
func (w *Walk[L, R]) Leave() { heap.Pop(&w.lanes) }
