package ledger

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/queue"
)

// recount computes every sum of a book again, from its leases and its requests, and
// reports all differences. A correct book never has one. Devices are those that the book
// knows beside the ones of its leases.
func recount(b *lease.Book, devices ...string) error {
	r := recounted{
		book: b, users: map[lease.Owner]lease.Count{}, services: map[string]lease.Usage{}, groups: map[string]lease.Count{},
		devices: map[string]bool{}, fences: map[uint64]bool{}, taken: map[uint64]gpu.MiB{},
	}
	for _, l := range b.Leases() {
		if l.From != 0 {
			r.taken[l.From] += l.Total().Memory
		}
	}
	for _, uuid := range devices {
		r.devices[uuid] = true
	}
	for _, l := range b.Leases() {
		r.lease(l)
	}
	r.queue()
	r.sums()
	r.counts()
	if next, any := b.Next(); !r.limited && (any != !r.next.IsZero() || any && !next.Equal(r.next)) {
		r.wrong("the next thing is due at %s, and should be at %s", next, r.next)
	}
	return errors.Join(r.errs...)
}

type recounted struct {
	book     *lease.Book
	users    map[lease.Owner]lease.Count
	services map[string]lease.Usage
	groups   map[string]lease.Count
	devices  map[string]bool
	fences   map[uint64]bool
	taken    map[uint64]gpu.MiB // by pool: memory of its children
	next     time.Time
	limited  bool // a lease has a time limit or was cancelled, and only the book knows what was noted about it
	errs     []error
}

func (r *recounted) wrong(format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf(format, args...))
}

// due notes that something is due at a time.
func (r *recounted) due(at time.Time) {
	if r.next.IsZero() || at.Before(r.next) {
		r.next = at
	}
}

func plus(c lease.Count, u lease.Usage, leases, waiting int) lease.Count {
	return lease.Count{Usage: lease.Usage{Memory: c.Memory + u.Memory, Slots: c.Slots + u.Slots}, Leases: c.Leases + leases, Waiting: c.Waiting + waiting, GPUs: c.GPUs}
}

func (r *recounted) lease(l *lease.Lease) {
	if r.book.Lease(l.Key()) != l {
		r.wrong("lease %s is not found by its key", l.ID)
	}
	if l.Fence == 0 || l.Fence > r.book.Fence() || r.fences[l.Fence] {
		r.wrong("lease %s has fence %d of %d, or another has it too", l.ID, l.Fence, r.book.Fence())
	}
	r.fences[l.Fence] = true
	if held := slices.Collect(r.book.HeldBy(l.Holder)); l.Holder.PID != 0 && !slices.Contains(held, l) || slices.ContainsFunc(held, func(other *lease.Lease) bool { return r.book.Lease(other.Key()) != other }) {
		r.wrong("the process of %s has %d leases in the book, and %s or another is wrong", l.ID, len(held), l.ID)
	}
	used := l.Total()
	if l.Pool {
		used.Memory -= r.taken[l.Fence]
	}
	if l.State == lease.Parked {
		used = lease.Usage{}
	}
	owner, service := l.Holder.Owner(), l.Holder.Service
	r.users[owner] = plus(r.users[owner], used, 1, 0)
	if has := r.users[owner]; !r.fences[l.ParentFence] { // the leases come in the order of their fences
		has.GPUs += len(l.Parts)
		r.users[owner] = has
	}
	r.services[service] = plus(lease.Count{Usage: r.services[service]}, used, 0, 0).Usage
	for _, group := range l.Groups {
		r.groups[group] = plus(r.groups[group], used, 1, 0)
	}
	for _, uuid := range l.Devices() {
		r.devices[uuid] = true
	}
	r.limited = r.limited || l.TimeLimit > 0 || l.Cancelled != nil
	switch {
	case l.State == lease.Parked:
	case l.Binding == lease.ByTTL:
		r.due(l.Expires)
	case l.Binding == lease.ByProcess && l.Implied:
		r.due(l.Granted.Add(lease.Grace))
	}
}

// queue holds the ways to go through the queue against each other.
func (r *recounted) queue() {
	var walk lease.Walk
	r.book.Walk(&walk)
	waiting := r.book.Waiting()
	for i, w := range waiting {
		if r.book.Request(w.Key()) != w || r.book.Position(w) != i+1 {
			r.wrong("request %s is at %d in the queue, and should be at %d", w.ID, r.book.Position(w), i+1)
		}
		if walk.Request() != w {
			r.wrong("request %s is not the next one in the queue", w.ID)
			return
		}
		walk.Next(queue.AnyLoad)
		if !r.book.Least().Within(w.Load()) {
			r.wrong("the least in the queue is %+v, and %s asks for %+v", r.book.Least(), w.ID, w.Load())
		}
		if w.Into != 0 && (r.book.Lease(w.Key()) == nil || r.book.Lease(w.Key()).Fence != w.Into) {
			r.wrong("request %s is for a lease that there is not", w.ID)
		}
		owner := w.Holder.Owner()
		r.users[owner] = plus(r.users[owner], lease.Usage{}, 0, 1)
		r.due(w.Deadline)
	}
	if walk.Request() != nil {
		r.wrong("request %s is in the queue and is not listed", walk.Request().ID)
	}
	if leases, waits := r.book.Len(); leases != len(r.fences) || waits != len(waiting) {
		r.wrong("the book counts %d leases and %d requests, and has %d and %d", leases, waits, len(r.fences), len(waiting))
	}
}

// sums adds up what is on each device.
func (r *recounted) sums() {
	for uuid := range r.devices {
		sum, known := r.book.Sum(uuid)
		want := lease.Sum{Capacity: sum.Capacity, Foreign: sum.Foreign}
		parts := 0
		for _, h := range r.book.Holdings(uuid) {
			if r.book.Lease(h.Lease.Key()) != h.Lease {
				r.wrong("lease %s on %s is not in the book", h.Lease.ID, uuid)
			}
			if parts++; h.Lease.State == lease.Parked {
				want.Overuse += h.Measured
				continue
			}
			want.Leased += h.Part.Memory
			want.Overuse += max(h.Measured-h.Part.Memory, 0)
			want.Active += h.Part.Slots
			want.Leases++
			if h.Lease.Exclusive {
				want.Alone++
			}
		}
		for _, l := range r.book.Leases() {
			if l.On(uuid) {
				parts--
			}
		}
		if !known || sum != want || parts != 0 {
			r.wrong("device %s: the sum is %+v and should be %+v; %d parts too many", uuid, sum, want, parts)
		}
	}
}

// counts compares what users, services and groups have.
func (r *recounted) counts() {
	for user, want := range r.users {
		if got := r.book.UserCount(user); got != want {
			r.wrong("user %+v has %+v, and should have %+v", user, got, want)
		}
	}
	for service, want := range r.services {
		if got := r.book.ServiceUsage(service); got != want {
			r.wrong("service %s has %+v, and should have %+v", service, got, want)
		}
	}
	for group, want := range r.groups {
		if got := r.book.GroupCount(group); got != want {
			r.wrong("group %s has %+v, and should have %+v", group, got, want)
		}
	}
}
