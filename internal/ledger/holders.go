package ledger

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

// holders watches the processes that leases are bound to.
type holders struct {
	mu        sync.Mutex
	byProcess map[process.ID]*holding
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
	// It may have ended before it was noted here; nobody would take it out.
	l.mu.RLock()
	standing := l.book.Lease(granted.ID)
	l.mu.RUnlock()
	if standing == nil || standing.Fence != granted.Fence {
		l.holders.drop(id, granted)
	}
	return nil
}

// ended forgets a lease.
func (h *holders) ended(l *lease.Lease) {
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
	clear(h.byProcess)
}

// endOf releases everything that a dead process held. Its memory is free: the
// kernel took it back before it told.
func (l *Ledger) endOf(id process.ID) {
	for {
		err := l.submit(context.Background(), func(now time.Time) error {
			for _, held := range l.book.Leases() {
				if held.Binding == lease.ByProcess && processOf(held) == id && held.Holder.Boot == l.boot {
					if _, err := l.apply(lease.Release{ID: held.ID, Fence: held.Fence, By: lease.Daemon(), Why: "its process ended"}, now); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err == nil || errors.Is(err, ErrStopped) {
			return
		}
		// The journal is full to the last byte of its reserve. A lease of a dead
		// process is worth waiting for, and a restart would find it too.
		select {
		case <-time.After(retry):
		case <-l.finished:
			return
		}
	}
}

// reviveHolders takes up the watch over the holders that a restart left
// behind, and releases what those held that have ended meanwhile.
func (l *Ledger) reviveHolders() {
	l.mu.RLock()
	standing := l.book.Leases()
	l.mu.RUnlock()
	for _, each := range standing {
		if each.Binding != lease.ByProcess {
			continue
		}
		if each.Holder.Boot != l.boot || l.watch(each) != nil {
			go l.release(each)
		}
	}
}

// release ends one lease whose holder is gone, after a restart.
func (l *Ledger) release(gone *lease.Lease) {
	for {
		err := l.submit(context.Background(), func(now time.Time) error {
			_, err := l.apply(lease.Release{ID: gone.ID, Fence: gone.Fence, By: lease.Daemon(), Why: "its process ended while the daemon was away"}, now)
			if errors.Is(err, lease.ErrUnknown) || errors.Is(err, lease.ErrStaleFence) {
				return nil
			}
			return err
		})
		if err == nil || errors.Is(err, ErrStopped) {
			return
		}
		select {
		case <-time.After(retry):
		case <-l.finished:
			return
		}
	}
}
