package lease

import (
	"fmt"
	"strings"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease/queue"
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

// waiter is a request in the queue.
type waiter struct {
	node[waiter]
	request *Request
	alarm   alarm
	passed  int // how many were granted before it that delay it, see Book.Passed
}

// lane says what the requests of a lane of the queue have in common: the devices that suit
// them and, but for their size, who may pass.
type lane struct {
	priority int
	user     *Count
	service  *Count
	parent   string
	above    uint64 // fence of the parent
	alone    bool   // they are exclusive
	endless  bool
	gpus     int
	where    gpu.Where
	only     string
	share    gpu.Opt[float64] // see SetShares
}

// lane returns the lane of a request, whose user and service have accounts from then on.
func (b *Book) lane(r *Request) lane {
	l := lane{
		priority: r.Priority, user: accountOf(b.users, r.Holder.Owner()), service: accountOf(b.services, r.Holder.Service),
		parent: r.Parent, above: r.ParentFence, alone: r.Exclusive, endless: r.Endless(), gpus: r.Devices(), where: r.Where, only: strings.Join(r.Only, " "),
	}
	if share, placed := b.shares[r.Key()]; placed {
		l.share = gpu.Some(share)
	}
	return l
}

// rank returns where a lane is in the queue: by priority, then by the share of the machine
// that its user has in use, then by that of its service. SetShares puts another share in
// the place of the user's.
func (b *Book) rank(l *lane) queue.Rank {
	return queue.Rank{Priority: l.priority, User: l.share.Or(b.share(l.user.Usage)), Service: b.share(l.service.Usage)}
}

// inQueue returns a request as the queue has it. Two times with a monotonic reading would
// compare by that, and the order of times with and without one is none: so its age counts
// by the wall alone.
func (r *Request) inQueue() queue.Entry[*Request] {
	return queue.Entry[*Request]{Request: r, Since: r.Requested.UnixNano(), Arrival: r.Arrival, Load: r.Load(), Total: Load(r.Total())}
}

func (b *Book) enqueue(r *Request) {
	if r.Arrival == 0 {
		r.Arrival = b.arrivals + 1
	}
	b.arrivals = max(b.arrivals, r.Arrival)
	w := &waiter{request: r, alarm: alarm{at: r.Deadline, waiting: true}}
	l := b.lane(r)
	b.queue.Add(l, r.inQueue())
	l.user.Waiting++
	l.service.Waiting++
	b.waiting.put(w, r.Key())
	w.alarm.key = &w.key
	b.alarms.add(&w.alarm)
	if r.Into != 0 {
		b.leases.get(r.Key()).want = w
	}
	if r.Parent != "" {
		b.children++
	}
}

func (b *Book) leave(w *waiter) {
	l, _, _ := b.queue.Lane(w.request)
	b.queue.Remove(w.request)
	l.user.Waiting--
	l.service.Waiting--
	b.dropAccounts(w.request.Holder)
	b.waiting.remove(w)
	b.alarms.remove(&w.alarm)
	if w.request.Into != 0 {
		b.leases.get(w.key).want = nil
	}
	if w.request.Parent != "" {
		b.children--
	}
}

// Walk goes through the waiting requests; see queue.Walk. Book.Walk begins a walk, which is
// valid until the book changes.
type Walk = queue.Walk[lane, *Request]

// Walk makes w go through the queue from its front.
func (b *Book) Walk(w *Walk) { w.Begin(b.queue) }

// Waiting lists the waiting requests in the order of the queue. The slice belongs to the
// book and is valid until the next change.
func (b *Book) Waiting() []*Request { return b.queue.All() }

// Compare compares the places of two waiting requests; see queue.Queue.Compare.
func (b *Book) Compare(r, other *Request) int { return b.queue.Compare(r, other) }

// Position returns the place of a waiting request in the queue, counted from one;
// zero if it does not wait.
func (b *Book) Position(r *Request) int { return b.queue.Position(r) }

// Passable reports whether a request that comes later, with the same priority, may have its
// place before a waiting one: that of a user or a service with a smaller share.
func (b *Book) Passable(r *Request) bool {
	_, rank, _ := b.queue.Lane(r)
	return rank.User > 0 || rank.Service > 0
}

// Least returns a lower bound on the memory and the slots that a request in the queue
// asks for on a device.
func (b *Book) Least() Load { return b.queue.Least() }

// ChildrenWait reports whether a request with a parent waits.
func (b *Book) ChildrenWait() bool { return b.children > 0 }

// Work returns how much work it has taken so far to order the queue and to find who may
// pass.
func (b *Book) Work() int { return b.queue.Work }

// Load is the memory and the slots that a lease or a request takes of one device.
type Load = queue.Load

// Passing answers whether a request may pass those ahead on a device; see queue.Passing.
type Passing = queue.Passing[*Request]

// Passing prepares p for a device, with no request ahead. It counts as holdings
// what throttling and processes under no lease take from the device, because that
// may be gone when the ledger looks at the ones ahead again.
func (b *Book) Passing(p *Passing, uuid string) {
	d := b.devices[uuid]
	if d == nil {
		p.Begin(&b.queue.Work, Load{Memory: -1, Slots: -1}, func(func(Load) bool) {})
		return
	}
	p.Begin(&b.queue.Work, Load{Memory: d.Ceiling(), Slots: d.MaxPipelines}, d.holdings)
}

// holdings yields the load of everything on the device.
func (d *device) holdings(yield func(Load) bool) {
	for _, s := range d.spots {
		leased, overuse, slots := s.entry.counted(s.part, &s.entry.lease.Parts[s.part])
		if !yield(Load{Memory: leased + overuse, Slots: slots}) {
			return
		}
	}
	_ = yield(Load{Memory: d.Foreign}) && yield(Load{Slots: max(d.MaxPipelines-d.Usable, 0)})
}
