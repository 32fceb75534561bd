package ledger

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

// holders watches the processes that leases are bound to.
type holders struct {
	mu        sync.Mutex
	byProcess map[process.ID]*holding // nil: nobody is watched any more
}

// holding is a process with leases.
type holding struct {
	leases map[string]uint64 // fence by id
	stop   func()
}

func processOf(l *lease.Lease) process.ID {
	return process.ID{PID: l.Holder.PID, Start: l.Holder.Start}
}

// watch ends a lease as soon as the process ends that it is bound to.
func (l *Ledger) watch(granted *lease.Lease) error {
	id := processOf(granted)
	l.holders.mu.Lock()
	defer l.holders.mu.Unlock()
	if l.holders.byProcess == nil {
		return nil
	}
	h := l.holders.byProcess[id]
	if h == nil {
		stop, err := l.processes.Watch(id, func() { l.endOf(id) })
		if err != nil {
			return err
		}
		h = &holding{leases: map[string]uint64{}, stop: stop}
		l.holders.byProcess[id] = h
	}
	h.leases[granted.ID] = granted.Fence
	// It may have ended, or have got another holder, before it was noted here;
	// nobody would take it out.
	l.mu.RLock()
	standing := l.book.Lease(granted.ID)
	l.mu.RUnlock()
	if standing == nil || standing.Fence != granted.Fence || processOf(standing) != id {
		l.holders.drop(id, granted)
	}
	return nil
}

// left forgets a lease that has ended, or has got another holder.
func (h *holders) left(l *lease.Lease) {
	if l.Binding != lease.ByProcess {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(processOf(l), l)
}

// drop takes a lease out, and a process without leases too. The caller holds
// mu.
func (h *holders) drop(id process.ID, l *lease.Lease) {
	held := h.byProcess[id]
	if held == nil || held.leases[l.ID] != l.Fence {
		return
	}
	delete(held.leases, l.ID)
	if len(held.leases) == 0 {
		delete(h.byProcess, id)
		held.stop()
	}
}

func (h *holders) stopAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, held := range h.byProcess {
		held.stop()
	}
	h.byProcess = nil
}

// reviveHolders takes up the watch over the holders that a restart left
// behind, and releases what those held that have ended meanwhile. It runs
// before the clerk takes its first errand.
func (l *Ledger) reviveHolders() {
	l.mu.RLock()
	standing := l.book.Leases()
	l.mu.RUnlock()
	var gone []*lease.Lease
	for _, each := range standing {
		if each.Binding != lease.ByProcess {
			continue
		}
		switch err := l.revive(each); {
		case errors.Is(err, process.ErrGone) && !l.inherited(each):
			gone = append(gone, each)
		case errors.Is(err, process.ErrGone):
		case err != nil:
			l.watchLater(each)
		}
	}
	for some := range slices.Chunk(gone, maxBatch) {
		l.releaseDead(some)
	}
}

// inherited reports whether heirs of a dead holder use the devices of its
// lease, and sees to it that the lease ends with them.
func (l *Ledger) inherited(each *lease.Lease) bool {
	id := processOf(each)
	l.mu.Lock()
	heirs := l.heirs(id)
	if len(heirs) > 0 && each.Holder.Boot == l.boot {
		l.bereaved[id] = true
	}
	known := l.bereaved[id]
	l.mu.Unlock()
	if !known {
		return false
	}
	l.holders.mu.Lock()
	held := l.holders.byProcess[id]
	if held == nil {
		held = &holding{leases: map[string]uint64{}, stop: func() {}}
		l.holders.byProcess[id] = held
	}
	held.leases[each.ID] = each.Fence
	l.holders.mu.Unlock()
	l.follow(id, heirs)
	return true
}

// revive watches the holder of a lease from before a restart.
func (l *Ledger) revive(each *lease.Lease) error {
	if each.Holder.Boot != l.boot {
		return process.ErrGone
	}
	return l.watch(each)
}

const awayText = "its process ended while the daemon was away"

// releaseDead ends leases whose holders are gone, in one write.
func (l *Ledger) releaseDead(gone []*lease.Lease) {
	batch := make([]*errand, len(gone))
	for i, each := range gone {
		batch[i] = &errand{done: make(chan error, 1), do: func(now time.Time) error {
			_, err := l.apply(lease.Release{ID: each.ID, Fence: each.Fence, By: lease.Daemon(), Why: awayText}, now)
			return err
		}}
	}
	l.work(batch)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, e := range batch {
		if <-e.done != nil { // there was no room in the journal
			l.releaseLater(gone[i], awayText)
		}
	}
}
