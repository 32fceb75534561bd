package lease

import (
	"iter"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease/queue"
)

// Book keeps all leases and all waiting requests. New makes one; the zero value
// is not usable.
type Book struct {
	fence    uint64 // of the newest grant
	ahead    bool   // it is a copy that looks ahead, where processes end with their lease
	devices  map[string]*device
	leases   shelf[entry, *entry]
	grants   grants
	waiting  shelf[waiter, *waiter]
	users    map[Owner]*Count
	services map[string]*Count
	groups   map[string]*Count // only groups with limits of their own
	// processes has the newest lease of each process that holds some.
	processes map[processKey]*entry
	pools     map[uint64]*pool // by fence, also those that have ended and have children
	kin       map[uint64]*kin  // by fence, leases that have children, also those that have ended
	alarms    alarms           // when leases expire and requests time out

	// Sums over all devices, for shares.
	ceiling      gpu.MiB
	maxPipelines int

	queue    *queue.Queue[lane, *Request]
	arrivals uint64          // of the newest request
	children int             // waiting requests with a parent
	shares   map[Key]float64 // see SetShares; never changed, but replaced
}

// New returns an empty book.
func New() *Book {
	b := &Book{
		devices:   make(map[string]*device),
		leases:    newShelf[entry](),
		waiting:   newShelf[waiter](),
		users:     make(map[Owner]*Count),
		services:  make(map[string]*Count),
		groups:    make(map[string]*Count),
		processes: make(map[processKey]*entry),
		pools:     make(map[uint64]*pool),
		kin:       make(map[uint64]*kin),
	}
	b.queue = queue.New[lane, *Request](b.rank)
	return b
}

// Clone returns a book with the same leases and requests, in which the caller can try
// what comes next: what a lease uses there is free as soon as it ends. Both books share them, because leases and requests never change.
func (b *Book) Clone() *Book {
	c := New()
	c.fence, c.shares, c.ahead = b.fence, b.shares, true
	for uuid, d := range b.devices {
		if d.known {
			c.SetCapacity(uuid, d.Capacity)
		}
		c.device(uuid).Foreign = d.Foreign
	}
	for e := range b.grants.all {
		measured := make([]gpu.MiB, len(e.places))
		for i, p := range e.places {
			measured[i] = p.measured
		}
		c.insert(e.lease, measured)
	}
	for w := range b.waiting.all {
		c.enqueue(w.request)
	}
	return c
}

// SetCapacity sets the capacity of a device.
func (b *Book) SetCapacity(uuid string, c Capacity) {
	d := b.device(uuid)
	b.ceiling += max(c.Ceiling(), 0) - max(d.Ceiling(), 0)
	b.maxPipelines += c.MaxPipelines - d.MaxPipelines
	d.Capacity, d.known = c, true
	b.queue.Moved()
}

// device returns a device, and adds it without capacity if it is new: after a
// restart, a lease is read before its device is seen.
func (b *Book) device(uuid string) *device {
	d := b.devices[uuid]
	if d == nil {
		d = &device{}
		b.devices[uuid] = d
	}
	return d
}

// Sum returns the sum of a device; false if the book does not know the device.
func (b *Book) Sum(uuid string) (Sum, bool) {
	d := b.devices[uuid]
	if d == nil {
		return Sum{}, false
	}
	return d.Sum, true
}

// Lease returns a lease by its key; nil if there is none.
func (b *Book) Lease(k Key) *Lease {
	if e := b.leases.get(k); e != nil {
		return e.lease
	}
	return nil
}

// Standing returns the lease that an id and a fence of an owner name, whether it is for a
// run or not; nil if that has ended. A fence of zero means any: then Standing prefers the
// lease that is for no run.
func (b *Book) Standing(k Key, fence uint64) *Lease {
	if e := b.standing(k, fence); e != nil {
		return e.lease
	}
	return nil
}

func (b *Book) standing(k Key, fence uint64) *entry {
	if fence != 0 {
		if e := b.grants.get(fence); e != nil && e.key.ID == k.ID && e.key.Owner == k.Owner {
			return e
		}
		return nil
	}
	if e := b.leases.get(k); e != nil || k.Run != (Run{}) {
		return e
	}
	for e := range b.leases.called(k.ID) {
		if e.key.Owner == k.Owner {
			return e
		}
	}
	return nil
}

// InUse reports whether a lease or a waiting request of an owner has an id, whether it is
// for a run or not.
func (b *Book) InUse(o Owner, id string) bool {
	for e := range b.leases.called(id) {
		if e.key.Owner == o {
			return true
		}
	}
	for w := range b.waiting.called(id) {
		if w.key.Owner == o {
			return true
		}
	}
	return false
}

// Request returns a waiting request by its key; nil if there is none.
func (b *Book) Request(k Key) *Request {
	if w := b.waiting.get(k); w != nil {
		return w.request
	}
	return nil
}

// Leases lists all leases, oldest grant first.
func (b *Book) Leases() []*Lease {
	all := make([]*Lease, 0, b.leases.count)
	for e := range b.grants.all {
		all = append(all, e.lease)
	}
	return all
}

// After yields the leases that were granted after the one with a fence, oldest grant
// first. The book must not change meanwhile.
func (b *Book) After(fence uint64) iter.Seq[*Lease] {
	return func(yield func(*Lease) bool) {
		for e := range b.grants.after(fence) {
			if !yield(e.lease) {
				return
			}
		}
	}
}

// Len returns the number of leases and of waiting requests.
func (b *Book) Len() (leases, waiting int) { return b.leases.count, b.waiting.count }

// Fence returns the fence of the newest grant.
func (b *Book) Fence() uint64 { return b.fence }

// Next returns when the next lease expires or request times out; false if none
// does.
func (b *Book) Next() (time.Time, bool) { return b.alarms.next() }
