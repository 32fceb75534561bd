package lease

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/berth-gpu/berth/internal/access"
)

// Ask puts a request into the queue. The book keeps the request: the caller must
// not change it after the call.
type Ask struct{ Request *Request }

func (a Ask) apply(b *Book, now time.Time) (Effect, error) {
	r := a.Request
	if err := r.Validate(); err != nil {
		return Effect{}, err
	}
	if err := r.verifyKey(b); err != nil {
		return Effect{}, err
	}
	if parent, err := b.Parent(r); err == nil && parent != nil {
		r.ParentFence = parent.Fence
	}
	b.enqueue(r)
	return Effect{Kind: Asked, Time: now, Request: r, By: r.By}, nil
}

// Withdraw takes a request out of the queue.
type Withdraw struct {
	Key
	By  access.Actor
	Why string
}

func (x Withdraw) apply(b *Book, now time.Time) (Effect, error) {
	w := b.waiting.get(x.Key)
	if w == nil {
		return Effect{}, fmt.Errorf("withdraw %s: %w", x.ID, ErrUnknown)
	}
	if err := access.May(x.By, access.Withdraw, w.request.Object()); err != nil {
		return Effect{}, fmt.Errorf("withdraw %s: %w", x.ID, err)
	}
	b.leave(w)
	return Effect{Kind: Withdrawn, Time: now, Request: w.request, By: x.By, Why: x.Why}, nil
}

// TimeOut takes a request that has reached its deadline out of the queue. See Due.
type TimeOut struct{ Key }

func (x TimeOut) apply(b *Book, now time.Time) (Effect, error) {
	w := b.waiting.get(x.Key)
	switch {
	case w == nil:
		return Effect{}, fmt.Errorf("time out %s: %w", x.ID, ErrUnknown)
	case now.Before(w.request.Deadline):
		return Effect{}, fmt.Errorf("time out %s: %w: it waits until %s", x.ID, ErrNotDue, w.request.Deadline.Format(time.RFC3339))
	}
	b.leave(w)
	return Effect{Kind: TimedOut, Time: now, Request: w.request, By: access.Daemon(), Why: "it waited until its deadline"}, nil
}

// waiter is a request in the queue, and in the tree of its lane.
type waiter struct {
	node[waiter]
	request *Request
	lane    *lane
	alarm   alarm
	passed  int // how many were granted before it that delay it, see Book.Passed

	left, right *waiter // older and younger ones
	weight      uint32
	size        int   // of the tree from here down
	least       Load  // the least memory and the fewest slots on a device in it
	most        Load  // the most
	total       Usage // the most over all devices
}

// queue keeps the waiters in lanes, and the lanes by priority. The shares of users and
// services change with every grant and every end of a lease, so Walk finds the order of
// the lanes of a priority only when somebody asks for it.
type queue struct {
	lanes    map[laneKey]*lane
	levels   []*level // the highest priority first
	children int      // lanes of requests with a parent
	arrivals uint64
	work     int // see Work

	least Load // see Least
	left  int  // how many waiters have left since least was computed

	shares map[Key]float64 // see SetShares; never changed, but replaced

	requests []*Request // for Waiting, unless stale
	stale    bool
}

func (b *Book) enqueue(r *Request) {
	if r.Arrival == 0 {
		r.Arrival = b.queue.arrivals + 1
	}
	b.queue.arrivals = max(b.queue.arrivals, r.Arrival)
	w := &waiter{
		request: r, lane: b.lane(r),
		alarm: alarm{at: r.Deadline, waiting: true},
	}
	w.lane.add(w)
	w.lane.user.Waiting++
	w.lane.service.Waiting++
	b.waiting.put(w, r.Key())
	w.alarm.key = &w.key
	b.alarms.add(&w.alarm)
	if r.Into != 0 {
		b.leases.get(r.Key()).want = w
	}
	b.queue.least = b.queue.least.Smaller(r.Load())
	b.queue.stale = true
}

func (b *Book) leave(w *waiter) {
	w.lane.remove(w)
	b.dropLane(w.lane)
	w.lane.user.Waiting--
	w.lane.service.Waiting--
	b.dropAccounts(w.request.Holder)
	b.waiting.remove(w)
	b.alarms.remove(&w.alarm)
	if w.request.Into != 0 {
		b.leases.get(w.key).want = nil
	}
	b.queue.left++
	b.queue.stale = true
}

// lane returns the lane of a request, and adds it if it is new.
func (b *Book) lane(r *Request) *lane {
	q, key := &b.queue, b.keyOf(r)
	l := q.lanes[key]
	if l == nil {
		l = &lane{
			key: key, level: q.level(key.priority),
			user: accountOf(b.users, r.Holder.Owner()), service: accountOf(b.services, r.Holder.Service),
		}
		l.at = len(l.level.lanes)
		l.level.lanes = append(l.level.lanes, l)
		q.lanes[key] = l
		if key.parent != "" {
			q.children++
		}
	}
	return l
}

// dropLane removes a lane if it is empty.
func (b *Book) dropLane(l *lane) {
	if l.root != nil {
		return
	}
	q, all := &b.queue, l.level.lanes
	last := len(all) - 1
	all[l.at] = all[last]
	all[l.at].at = l.at
	all[last] = nil
	if l.level.lanes = all[:last]; last == 0 {
		at, _ := q.find(l.key.priority)
		q.levels = slices.Delete(q.levels, at, at+1)
	}
	delete(q.lanes, l.key)
	if l.key.parent != "" {
		q.children--
	}
}

// level returns the lanes of a priority.
func (q *queue) level(priority int) *level {
	at, found := q.find(priority)
	if !found {
		q.levels = slices.Insert(q.levels, at, &level{priority: priority})
	}
	return q.levels[at]
}

func (q *queue) find(priority int) (at int, found bool) {
	return slices.BinarySearchFunc(q.levels, priority, func(l *level, priority int) int { return cmp.Compare(priority, l.priority) })
}

// Least returns a lower bound on the memory and the slots that a request in the queue
// asks for on a device. If the queue has many lanes, Least takes a while to notice that
// the smallest requests have left.
func (b *Book) Least() Load {
	if q := &b.queue; q.left > len(q.lanes)/256 {
		q.least, q.left = AnyLoad, 0
		for _, l := range q.lanes {
			q.least = q.least.Smaller(l.root.least)
		}
	}
	return b.queue.least
}

// ChildrenWait reports whether a request with a parent waits.
func (b *Book) ChildrenWait() bool { return b.queue.children > 0 }

// Work returns how much work it has taken so far to order the queue and to find who may
// pass: comparisons of requests by Walk, and steps of Passing.
func (b *Book) Work() int { return b.queue.work }
