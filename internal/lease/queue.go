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
	if b.leases.get(r.Key()) != nil || b.waiting.get(r.Key()) != nil {
		return Effect{}, fmt.Errorf("ask for %s: %w; release it first or take another id", r.ID, ErrDuplicate)
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

// waiter is a request in the queue.
type waiter struct {
	node[waiter]
	request *Request
	arrival uint64 // orders requests of the same time
	user    *account
	service *account
	alarm   alarm
	at      int // index in queue.order

	userShare, serviceShare float64 // as of the last sorting
}

// queue keeps the waiters in order. Shares change with every grant and every end
// of a lease, so Waiting sorts the queue only when it is called.
type queue struct {
	order    []*waiter
	requests []*Request // of order, for Waiting
	stale    bool
	arrivals uint64
}

func (b *Book) enqueue(r *Request) {
	b.queue.arrivals++
	w := &waiter{
		request: r, arrival: b.queue.arrivals,
		user: accountOf(b.users, r.Holder.User), service: accountOf(b.services, r.Holder.Service),
		alarm: alarm{at: r.Deadline, waiting: true},
		at:    len(b.queue.order),
	}
	w.user.waiting++
	w.service.waiting++
	b.waiting.put(w, r.Key())
	w.alarm.key = &w.key
	b.alarms.add(&w.alarm)
	b.queue.order = append(b.queue.order, w)
	b.queue.stale = true
}

func (b *Book) leave(w *waiter) {
	w.user.waiting--
	w.service.waiting--
	b.dropAccounts(w.request.Holder)
	b.waiting.remove(w)
	b.alarms.remove(&w.alarm)
	b.queue.order = slices.Delete(b.queue.order, w.at, w.at+1)
	for i, later := range b.queue.order[w.at:] {
		later.at = w.at + i
	}
	b.queue.stale = true
}

// Waiting lists the waiting requests in the order of the queue: higher priority
// first, then the user with the smaller share of the machine in use, then the
// service with the smaller share, then the older request. The slice belongs to
// the book and is valid until the next change.
func (b *Book) Waiting() []*Request {
	q := &b.queue
	if !q.stale {
		return q.requests
	}
	for _, w := range q.order {
		w.userShare, w.serviceShare = b.share(w.user.Usage), b.share(w.service.Usage)
	}
	slices.SortFunc(q.order, compareWaiters)
	clear(q.requests)
	q.requests = q.requests[:0]
	for i, w := range q.order {
		w.at = i
		q.requests = append(q.requests, w.request)
	}
	q.stale = false
	return q.requests
}

func compareWaiters(a, b *waiter) int {
	return cmp.Or(
		cmp.Compare(b.request.Priority, a.request.Priority),
		cmp.Compare(a.userShare, b.userShare),
		cmp.Compare(a.serviceShare, b.serviceShare),
		a.request.Requested.Compare(b.request.Requested),
		cmp.Compare(a.arrival, b.arrival),
	)
}
