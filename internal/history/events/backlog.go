package events

import (
	"container/heap"
	"slices"

	"github.com/berth-gpu/berth/gpu"
)

// Limits bound a backlog. It has three parts: notes, warnings about devices and the
// daemon, and warnings about users. Each limit is at least 1.
type Limits struct {
	Notes    int // events in the first part
	Warnings int // events in each of the other two
	Share    int // events of one user in the third part
	Bytes    int // estimated memory of each part
}

// Backlog keeps the newest events within bounds, with a value for each, and decides which
// one goes when there is no room. A note never displaces a warning. A user displaces only
// events about the same user, a pod only those about its own lease, and neither displaces a
// warning about a device or the daemon.
//
// It has no lock: its owner guards it.
type Backlog[T any] struct {
	limits    Limits
	displaced func(T)

	slots []slot[T] // ascending by id
	first int       // slots before it are empty
	kept  int       // number of slots that are not empty
	spare *item[T]  // an item to use again

	notes  *lane[T]
	daemon *lane[T]
	users  struct {
		byName map[subject]*lane[T] // and pods
		heap   crowd[T]
		count  int
		bytes  int
	}
}

// slot is the place of an event. It is empty once the event is gone.
type slot[T any] struct {
	id   uint64
	item *item[T]
}

// item is an event that is kept.
type item[T any] struct {
	value T
	at    int // index in slots
	size  int
	lane  *lane[T]
	next  *item[T] // the next one in the lane
}

// lane holds events, of which the oldest goes first.
type lane[T any] struct {
	about          subject
	place          int // in the heap, for the lane of a user
	oldest, newest *item[T]
	count, bytes   int
}

// NewBacklog returns an empty backlog. It calls displaced with each value that it
// displaces.
func NewBacklog[T any](limits Limits, displaced func(T)) *Backlog[T] {
	b := &Backlog[T]{limits: limits, displaced: displaced, notes: &lane[T]{}, daemon: &lane[T]{}}
	b.users.byName = map[subject]*lane[T]{}
	return b
}

// Owner returns the user that an event is about, and false if the event is about a device
// or the daemon. All events about unknown users have one owner, whose name is empty.
func Owner(e *gpu.Event) (user string, owned bool) {
	switch e.Code {
	case gpu.EventForeignUse, gpu.EventInternalFault, gpu.EventBatch, gpu.EventPlan, gpu.EventRationed:
		return e.User, true
	case gpu.EventDeviceFault: // a program can cause those of its class as often as it likes
		if e.Data["class"] == string(gpu.FaultProgram) {
			return e.User, true
		}
	}
	return e.User, e.User != "" || e.Lease != ""
}

// Add keeps v for the event e, whose id must be larger than that of any event before. It
// displaces events that no longer have room.
func (b *Backlog[T]) Add(e *gpu.Event, v T) { b.add(e, v, memoryOf(e)) }

// add is like Add for an event that takes so many bytes of memory.
func (b *Backlog[T]) add(e *gpu.Event, v T, size int) {
	it := b.spare
	if it == nil {
		it = &item[T]{}
	}
	b.spare = it.next
	*it = item[T]{value: v, size: size, lane: b.laneOf(e)}
	b.place(e.ID, it)
	b.grow(it.lane, it)
	switch it.lane {
	case b.notes:
		b.shrink(b.notes, b.limits.Notes)
	case b.daemon:
		b.shrink(b.daemon, b.limits.Warnings)
	default:
		b.shrink(it.lane, b.limits.Share)
		for b.users.count > b.limits.Warnings || b.users.bytes > b.limits.Bytes && b.users.count > 1 {
			b.displace(b.users.heap[0].oldest)
		}
	}
}

func (b *Backlog[T]) laneOf(e *gpu.Event) *lane[T] {
	if !e.Severity.AtLeast(gpu.Warning) {
		return b.notes
	}
	about, owned := subjectOf(e)
	if !owned {
		return b.daemon
	}
	l := b.users.byName[about]
	if l == nil {
		l = &lane[T]{about: about}
		b.users.byName[about] = l
		heap.Push(&b.users.heap, l)
	}
	return l
}

// place puts an item into a new slot. Now and then it removes the empty slots, at a
// constant cost per event on average.
func (b *Backlog[T]) place(id uint64, it *item[T]) {
	if len(b.slots) >= 2*b.kept+64 {
		b.slots = slices.DeleteFunc(b.slots, func(s slot[T]) bool { return s.item == nil })
		b.first = 0
		for i := range b.slots {
			b.slots[i].item.at = i
		}
	}
	it.at = len(b.slots)
	b.slots = append(b.slots, slot[T]{id, it})
	b.kept++
}

// grow appends an item to a lane.
func (b *Backlog[T]) grow(l *lane[T], it *item[T]) {
	if l.newest == nil {
		l.oldest = it
	} else {
		l.newest.next = it
	}
	l.newest = it
	b.count(l, 1, it.size)
}

// shrink displaces the oldest items of a lane until it is within bounds. A single event
// always is.
func (b *Backlog[T]) shrink(l *lane[T], most int) {
	for l.count > most || l.bytes > b.limits.Bytes && l.count > 1 {
		b.displace(l.oldest)
	}
}

func (b *Backlog[T]) displace(it *item[T]) {
	v := it.value
	b.remove(it)
	b.displaced(v)
}

// remove takes out the oldest item of a lane.
func (b *Backlog[T]) remove(it *item[T]) {
	l := it.lane
	b.slots[it.at].item = nil
	b.kept--
	if l.oldest = it.next; l.oldest == nil {
		l.newest = nil
	}
	b.count(l, -1, -it.size)
	*it = item[T]{next: b.spare}
	b.spare = it
}

// count changes the sums of a lane, and forgets a user who has nothing left.
func (b *Backlog[T]) count(l *lane[T], events, bytes int) {
	l.count += events
	l.bytes += bytes
	if l == b.notes || l == b.daemon {
		return
	}
	b.users.count += events
	b.users.bytes += bytes
	if l.count == 0 {
		heap.Remove(&b.users.heap, l.place)
		delete(b.users.byName, l.about)
		return
	}
	heap.Fix(&b.users.heap, l.place)
}

// After returns at most most kept values of the events after an id, the oldest first, and
// how many there are in all.
func (b *Backlog[T]) After(id uint64, most int) (found []T, all int) {
	from := len(b.slots)
	if b.kept > 0 {
		from, _ = slices.BinarySearchFunc(b.slots, id, func(s slot[T], id uint64) int {
			if s.id <= id {
				return -1
			}
			return 1
		})
	}
	from = max(from, b.first)
	for i := range b.slots[from:] {
		it := b.slots[from+i].item
		if it == nil {
			continue
		}
		if found == nil {
			found = make([]T, 0, min(b.kept, len(b.slots)-from-i, most))
		}
		if all++; all <= most {
			found = append(found, it.value)
		}
	}
	return found, all
}

// Take removes and returns the oldest value. found is false if there is none.
func (b *Backlog[T]) Take() (v T, found bool) {
	it := b.oldest()
	if it == nil {
		return v, false
	}
	v = it.value
	b.remove(it)
	return v, true
}

// Oldest returns the oldest value without removing it. found is false if there is none.
func (b *Backlog[T]) Oldest() (v T, found bool) {
	if it := b.oldest(); it != nil {
		return it.value, true
	}
	return v, false
}

func (b *Backlog[T]) oldest() *item[T] {
	for ; b.first < len(b.slots); b.first++ {
		if it := b.slots[b.first].item; it != nil {
			return it
		}
	}
	return nil
}

// crowd is a heap of the lanes of users, with the one that takes the most memory on top:
// it has to give way when all of them together take too much. Of two that take the same,
// the one with the older event is on top.
type crowd[T any] []*lane[T]

func (c crowd[T]) Len() int { return len(c) }
func (c crowd[T]) Less(i, j int) bool {
	if c[i].bytes == c[j].bytes {
		return c[i].oldest.at < c[j].oldest.at
	}
	return c[i].bytes > c[j].bytes
}
func (c crowd[T]) Swap(i, j int) {
	c[i], c[j] = c[j], c[i]
	c[i].place, c[j].place = i, j
}

// Push appends a lane, for [container/heap].
func (c *crowd[T]) Push(l any) {
	added := l.(*lane[T])
	added.place = len(*c)
	*c = append(*c, added)
}

// Pop removes the last lane, for [container/heap].
func (c *crowd[T]) Pop() any {
	last := len(*c) - 1
	l := (*c)[last]
	(*c)[last] = nil
	*c = (*c)[:last]
	return l
}
