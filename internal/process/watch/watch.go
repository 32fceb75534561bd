// Package watch notices the end of the processes that leases are bound to.
//
// It keeps one watch for each process, however many leases the process holds.
// It goes on watching a process for a while after its last lease: a program
// that takes one lease after the other is without one in between, and to begin
// a watch costs more than the rest of a grant.
package watch

import (
	"slices"
	"sync"

	"github.com/berth-gpu/berth/internal/process/kinship"
)

// Table starts a watch over one process: it calls ended once, in a goroutine of
// its own, when the process has ended, unless stop is called before.
// process.Table is a Table.
type Table interface {
	Watch(id kinship.ID, ended func()) (stop func(), err error)
}

// Lease names one lease. The fence is part of the name, because an id may be
// used again.
type Lease struct {
	ID    string
	Fence uint64
}

// Holders keeps the watches over the processes that hold leases. Its methods may
// be called from any goroutine.
type Holders struct {
	table  Table
	exited func(kinship.ID)

	mu      sync.Mutex
	byID    map[kinship.ID]*holder
	resting []kinship.ID // those that have released their last lease, oldest first
	closed  bool
}

// maxResting is how many processes without leases are watched.
const maxResting = 64

// holder is a process with leases, or one that had some a while ago.
type holder struct {
	leases map[Lease]bool
	stop   func()
	rests  bool // it is listed in resting, where it may have got leases again
	ended  bool // the process has ended: a watch over it tells nothing more
}

// New returns Holders that call exited, in a goroutine of its own, when a
// process has ended that leases are bound to.
func New(table Table, exited func(holder kinship.ID)) *Holders {
	return &Holders{table: table, exited: exited, byID: map[kinship.ID]*holder{}}
}

// Add watches a process for a lease. While Add holds the lock it asks stands
// whether the lease is still there and still bound to this process; if not, the
// call of Remove for it may be over already, so Add takes the lease out again.
// After Close, Add does nothing.
func (h *Holders) Add(id kinship.ID, l Lease, stands func() bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	if held := h.byID[id]; held == nil || held.ended {
		stop, err := h.table.Watch(id, func() { h.end(id) })
		switch {
		case err != nil:
			return err // also for one that has ended
		case held != nil:
			stop()
		default:
			h.byID[id] = &holder{leases: map[Lease]bool{}, stop: stop}
		}
	}
	h.byID[id].leases[l] = true
	if !stands() {
		h.remove(id, l)
	}
	return nil
}

// AddExited notes a lease of a process that has ended already, and watches
// nothing until Follow names another process.
func (h *Holders) AddExited(id kinship.ID, l Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	if h.byID[id] == nil {
		h.byID[id] = &holder{leases: map[Lease]bool{}, stop: func() {}, ended: true}
	}
	h.byID[id].leases[l] = true
}

// Follow watches another process in place of a holder that has ended. When the
// other one ends, exited is called with the holder again. Follow does nothing
// if the holder has no leases.
func (h *Holders) Follow(id, other kinship.ID) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := h.byID[id]
	if held == nil {
		return nil
	}
	stop, err := h.table.Watch(other, func() { h.exited(id) })
	if err != nil {
		return err
	}
	held.stop()
	held.stop, held.ended = stop, true
	return nil
}

// end notes that a process has ended, and tells so if it has leases. One that is
// granted to it from now on needs a watch of its own, which finds that out.
func (h *Holders) end(id kinship.ID) {
	h.mu.Lock()
	held := h.byID[id]
	holds := held != nil && len(held.leases) > 0
	if held != nil {
		held.ended = true
		if held.rests {
			held.rests = false
			h.resting = slices.DeleteFunc(h.resting, func(other kinship.ID) bool { return other == id })
		}
		if !holds {
			h.forget(id)
		}
	}
	h.mu.Unlock()
	if holds {
		h.exited(id)
	}
}

// Remove forgets a lease that has ended, or is bound to another process now. A
// process without leases is watched until it ends, or until many others have
// released their last lease.
func (h *Holders) Remove(id kinship.ID, l Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.remove(id, l)
}

func (h *Holders) remove(id kinship.ID, l Lease) {
	held := h.byID[id]
	if held == nil || !held.leases[l] {
		return
	}
	delete(held.leases, l)
	switch {
	case len(held.leases) > 0:
	case held.ended:
		h.forget(id)
	case !held.rests:
		held.rests = true
		if h.resting = append(h.resting, id); len(h.resting) > maxResting {
			h.wakeOldest()
		}
	}
}

// wakeOldest takes the process off the list that rests longest, and forgets it
// unless it has got leases again.
func (h *Holders) wakeOldest() {
	oldest := h.resting[0]
	h.resting = slices.Delete(h.resting, 0, 1)
	held := h.byID[oldest]
	if held.rests = false; len(held.leases) == 0 {
		h.forget(oldest)
	}
}

// forget ends the watch over a process.
func (h *Holders) forget(id kinship.ID) {
	h.byID[id].stop()
	delete(h.byID, id)
}

// Len returns the number of processes that have leases.
func (h *Holders) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, held := range h.byID {
		if len(held.leases) > 0 {
			n++
		}
	}
	return n
}

// Close stops all watches for good.
func (h *Holders) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, held := range h.byID {
		held.stop()
	}
	h.byID, h.resting, h.closed = nil, nil, true
}
