package ledger

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/watch"
)

// holders ends the leases that are bound to processes when those processes end.
type holders struct {
	l       *Ledger
	watches *watch.Holders // its lock is taken before that of the ledger

	// The lock of the ledger guards these.
	outlived map[process.ID]bool // have ended, and remaining processes keep their leases
	backlog  backlog

	caughtUp time.Time // when the backlog was last tried; only the clerk touches it
}

func newHolders(l *Ledger, table process.Table) holders {
	h := holders{l: l, outlived: map[process.ID]bool{}, backlog: newBacklog(l.nudge)}
	h.watches = watch.New(table, func(id process.ID) { l.holders.exited(id) })
	return h
}

func watched(l *lease.Lease) watch.Lease { return watch.Lease{ID: l.ID, Fence: l.Fence} }

// watch sees to it that a lease ends as soon as the process ends that it is
// bound to.
func (h *holders) watch(granted *lease.Lease) error {
	id := processOf(granted)
	return h.watches.Add(id, watched(granted), func() bool {
		h.l.mu.RLock()
		defer h.l.mu.RUnlock()
		held := h.l.book.Lease(granted.ID)
		return held != nil && held.Fence == granted.Fence && processOf(held) == id
	})
}

// left stops watching the process of a lease that has ended, or has another
// holder now.
func (h *holders) left(l *lease.Lease) {
	if l.Binding == lease.ByProcess {
		h.watches.Remove(processOf(l), watched(l))
	}
}

// ended takes note that a lease has ended.
func (h *holders) ended(l *lease.Lease) {
	h.left(l)
	now := process.Now()
	h.l.mu.Lock()
	defer h.l.mu.Unlock()
	delete(h.l.revoking, l.ID)
	if l.Holder.PID != 0 && l.Holder.Boot == h.l.boot {
		h.l.past.Note(kinOf(l), now)
	}
}

// exited releases everything that a process held that has ended, also what was
// granted to it a moment ago and is not watched yet. Remaining processes keep
// it. If the journal refuses that now, the clerk goes on trying.
func (h *holders) exited(id process.ID) {
	var remaining []process.ID
	err := h.l.submit(context.Background(), func(now time.Time) error {
		remaining = h.releaseIfUnused(id, now)
		return nil
	})
	switch {
	case errors.Is(err, ErrStopped): // the next start finds out
	case err != nil:
		h.releaseLater(id)
	case len(remaining) > 0:
		h.follow(id, remaining)
	}
}

// releaseIfUnused releases everything that a process held that has ended, unless
// remaining processes use a device under it. Those keep it, and releaseIfUnused
// returns them. The caller holds mu.
func (h *holders) releaseIfUnused(id process.ID, now time.Time) (remaining []process.ID) {
	h.l.forgetExited(id)
	bound := h.l.bound(id)
	if remaining = h.l.remaining(id); len(remaining) > 0 && len(bound) > 0 {
		h.outlived[id] = true
		return remaining
	}
	delete(h.outlived, id)
	for _, held := range bound {
		_, _ = h.l.apply(h.l.endOfHolder(held), now) // it stands, so the book takes it
	}
	return nil
}

// follow watches one of the remaining processes in place of a holder that has
// ended. When that one ends, exited finds out who is left.
func (h *holders) follow(id process.ID, remaining []process.ID) {
	err := error(process.ErrGone)
	if len(remaining) > 0 {
		err = h.watches.Follow(id, remaining[0])
	}
	if errors.Is(err, process.ErrGone) { // else there may be too many open files: Observe looks as well
		h.releaseLater(id)
	}
}

// releaseUnused has the clerk release what was kept for processes that have left
// the devices since. The caller holds mu.
func (h *holders) releaseUnused() {
	for id := range h.outlived {
		if len(h.l.remaining(id)) == 0 {
			h.backlog.exited(id)
		}
	}
}

// keptBy returns the pid of one of the processes that keep a lease since its own
// has ended; 0 if that has not ended. The caller holds mu.
func (h *holders) keptBy(held *lease.Lease) int {
	id := processOf(held)
	if held.Binding != lease.ByProcess || !h.outlived[id] {
		return 0
	}
	lowest := 0
	for _, each := range h.l.remaining(id) {
		if lowest == 0 || each.PID < lowest {
			lowest = each.PID
		}
	}
	return lowest
}

// resume watches the holders again that a restart left behind, and releases the
// leases of those that have ended meanwhile. It runs before the clerk takes its
// first errand.
func (h *holders) resume() {
	h.l.mu.RLock()
	standing := h.l.book.Leases()
	h.l.mu.RUnlock()
	var exited []*lease.Lease
	for _, each := range standing {
		if each.Binding != lease.ByProcess {
			continue
		}
		switch err := h.watchAgain(each); {
		case errors.Is(err, process.ErrGone) && !h.keep(each):
			exited = append(exited, each)
		case errors.Is(err, process.ErrGone):
		case err != nil:
			h.watchLater(each)
		}
	}
	for some := range slices.Chunk(exited, maxBatch) {
		h.releaseExited(some)
	}
}

// watchAgain watches the holder of a lease from before a restart.
func (h *holders) watchAgain(each *lease.Lease) error {
	if each.Holder.Boot != h.l.boot {
		return process.ErrGone
	}
	return h.watch(each)
}

// keep reports whether remaining processes use the devices of a lease whose
// holder has ended, and sees to it that the lease ends with them.
func (h *holders) keep(each *lease.Lease) bool {
	id := processOf(each)
	h.l.mu.Lock()
	remaining := h.l.remaining(id)
	if len(remaining) > 0 && each.Holder.Boot == h.l.boot {
		h.outlived[id] = true
	}
	outlived := h.outlived[id]
	h.l.mu.Unlock()
	if !outlived {
		return false
	}
	h.watches.AddExited(id, watched(each))
	h.follow(id, remaining)
	return true
}

const awayText = "its process ended while the daemon was away"

// releaseExited ends leases whose holders have ended, in one write.
func (h *holders) releaseExited(leases []*lease.Lease) {
	batch := make([]*errand, len(leases))
	for i, each := range leases {
		batch[i] = &errand{done: make(chan error, 1), do: func(now time.Time) error {
			_, err := h.l.apply(lease.Release{ID: each.ID, Fence: each.Fence, By: access.Daemon(), Why: awayText}, now)
			return err
		}}
	}
	h.l.work(batch)
	h.l.mu.Lock()
	defer h.l.mu.Unlock()
	for i, e := range batch {
		if <-e.done != nil { // there was no room in the journal
			h.backlog.unwanted(leases[i].ID, leases[i].Fence, awayText)
		}
	}
}
