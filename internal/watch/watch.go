// Package watch notices the end of the processes that leases are bound to. It
// keeps one watch for each process, however many leases the process holds, and
// lets the watch go with the last of them.
package watch

import (
	"sync"

	"github.com/berth-gpu/berth/internal/kin"
)

// Table starts a watch over one process: it calls ended once, in a goroutine of
// its own, when the process has ended, unless stop is called before.
// process.Table is a Table.
type Table interface {
	Watch(id kin.ID, ended func()) (stop func(), err error)
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
	exited func(kin.ID)

	mu     sync.Mutex
	byID   map[kin.ID]*holder
	closed bool
}

// holder is a process with leases.
type holder struct {
	leases map[Lease]bool
	stop   func()
}

// New returns Holders that call exited, in a goroutine of its own, when a
// process has ended that leases are bound to.
func New(table Table, exited func(holder kin.ID)) *Holders {
	return &Holders{table: table, exited: exited, byID: map[kin.ID]*holder{}}
}

// Add watches a process for a lease. While Add holds the lock it asks stands
// whether the lease is still there and still bound to this process; if not, the
// call of Remove for it may be over already, so Add takes the lease out again.
// After Close, Add does nothing.
func (h *Holders) Add(id kin.ID, l Lease, stands func() bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	if h.byID[id] == nil {
		stop, err := h.table.Watch(id, func() { h.exited(id) })
		if err != nil {
			return err
		}
		h.byID[id] = &holder{leases: map[Lease]bool{}, stop: stop}
	}
	h.byID[id].leases[l] = true
	if !stands() {
		h.remove(id, l)
	}
	return nil
}

// AddExited notes a lease of a process that has ended already, and watches
// nothing until Follow names another process.
func (h *Holders) AddExited(id kin.ID, l Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	if h.byID[id] == nil {
		h.byID[id] = &holder{leases: map[Lease]bool{}, stop: func() {}}
	}
	h.byID[id].leases[l] = true
}

// Follow watches another process in place of a holder that has ended. When the
// other one ends, exited is called with the holder again. Follow does nothing
// if the holder has no leases.
func (h *Holders) Follow(id, other kin.ID) error {
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
	held.stop = stop
	return nil
}

// Remove forgets a lease that has ended, or is bound to another process now. A
// process without leases is not watched any more.
func (h *Holders) Remove(id kin.ID, l Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.remove(id, l)
}

func (h *Holders) remove(id kin.ID, l Lease) {
	held := h.byID[id]
	if held == nil || !held.leases[l] {
		return
	}
	delete(held.leases, l)
	if len(held.leases) == 0 {
		delete(h.byID, id)
		held.stop()
	}
}

// Len returns the number of processes that have leases.
func (h *Holders) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.byID)
}

// Close stops all watches for good.
func (h *Holders) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, held := range h.byID {
		held.stop()
	}
	h.byID, h.closed = nil, true
}
