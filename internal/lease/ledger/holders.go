package ledger

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// holders ends the leases that are bound to processes when those processes end.
type holders struct {
	l       *Ledger
	watches *watches // its lock is taken before that of the ledger

	// The lock of the ledger guards these.
	outlived map[process.ID]int  // holders that have ended while remaining processes keep their leases, with the lowest pid of those by the last samples
	killed   map[process.ID]bool // holders that a signal ended, as far as the kernel tells, until their leases have ended
	backlog  backlog

	caughtUp time.Time // time of the last try of the backlog; only the clerk touches it
}

func newHolders(l *Ledger, table process.Table) holders {
	h := holders{l: l, outlived: map[process.ID]int{}, killed: map[process.ID]bool{}, backlog: backlog{ends: map[overdue]bool{}, unwatched: map[uint64]*lease.Lease{}}}
	h.watches = newWatches(table, func(id process.ID, killed bool) { l.holders.exited(id, killed) })
	return h
}

func watched(l *lease.Lease) watchedLease { return watchedLease{ID: l.ID, Fence: l.Fence} }

// watch watches the process of a lease, so that the lease ends with it.
func (h *holders) watch(granted *lease.Lease) error {
	id := processOf(granted)
	return h.watches.add(id, watched(granted), func() bool {
		h.l.mu.RLock()
		defer h.l.mu.RUnlock()
		held := h.l.stands(granted.Key(), granted.Fence)
		return held != nil && processOf(held) == id
	})
}

// left stops watching the process of a lease that has ended, or is bound to another.
func (h *holders) left(l *lease.Lease) {
	if l.Binding == lease.ByProcess {
		h.watches.remove(processOf(l), watched(l))
	}
}

// ended stops watching for a lease that has ended, and remembers its processes.
func (h *holders) ended(l *lease.Lease) {
	h.left(l)
	now := process.Now()
	h.l.mu.Lock()
	defer h.l.mu.Unlock()
	delete(h.l.revoking, l.Fence)
	delete(h.l.answered, l.Fence)
	h.l.past.Note(h.l.standing.of(l), now)
}

// exited releases all leases of a process that has ended, even one that was granted a
// moment ago and is not watched yet. If remaining processes use a device under the
// leases, they keep them. If the journal refuses the release now, the clerk tries again
// until it succeeds. killed says that a signal ended the process.
func (h *holders) exited(id process.ID, killed bool) {
	if killed {
		h.l.mu.Lock()
		h.killed[id] = true
		h.l.mu.Unlock()
	}
	var remaining []process.ID
	err := h.l.submit(context.Background(), func(now time.Time) error {
		remaining = h.releaseIfUnused(id, now)
		return nil
	})
	switch {
	case errors.Is(err, ErrStopped): // the next start releases them
	case err != nil:
		h.releaseLater(id)
	case len(remaining) > 0:
		h.follow(id, remaining)
	default:
		h.l.mu.Lock()
		delete(h.killed, id)
		h.l.mu.Unlock()
	}
}

// Exited releases the leases of a process that has ended, in case its watch missed the
// end.
func (l *Ledger) Exited(id process.ID) {
	if l.processes.Ended(id) {
		l.holders.exited(id, false)
	}
}

// releaseIfUnused releases all leases of a process that has ended, unless remaining
// processes use a device under them. In that case those keep the leases, and
// releaseIfUnused returns them. The caller holds mu.
func (h *holders) releaseIfUnused(id process.ID, now time.Time) (remaining []process.ID) {
	h.l.forgetExited(id)
	bound := h.l.bound(id)
	if remaining = h.l.remaining(id); len(remaining) > 0 && len(bound) > 0 {
		h.outlived[id] = remaining[0].PID
		return remaining
	}
	delete(h.outlived, id)
	for _, held := range bound {
		_, _ = h.l.apply(h.l.endOfHolder(held, h.killed[id]), now) // the lease exists, so the book takes it
	}
	return nil
}

// follow watches one of the remaining processes in place of a holder that has
// ended. When that process ends, exited looks for the next one.
func (h *holders) follow(id process.ID, remaining []process.ID) {
	err := error(process.ErrGone)
	if len(remaining) > 0 {
		err = h.watches.follow(id, remaining[0])
	}
	if errors.Is(err, process.ErrGone) { // after another error, such as too many open files, Observe notices the end
		h.releaseLater(id)
	}
}

// releaseUnused has the clerk release the leases whose remaining processes have
// left the devices since. It looks at each process once, however many holders have ended.
// The caller holds mu.
func (h *holders) releaseUnused() {
	if len(h.outlived) == 0 {
		return
	}
	lowest := map[process.ID]int{}
	for uuid, o := range h.l.devices {
		here := h.l.standing.on(uuid)
		for _, u := range o.used {
			for id := range here.Above(u.Process) {
				if pid := u.ID().PID; lowest[id] == 0 || pid < lowest[id] {
					lowest[id] = pid
				}
			}
		}
	}
	for id := range h.outlived {
		if pid := lowest[id]; pid != 0 {
			h.outlived[id] = pid
		} else {
			h.endLater(overdue{process: id})
		}
	}
}

// keptBy returns the lowest pid of the processes that keep a lease whose own process has
// ended, by the last samples, or 0 if its process has not ended. The caller holds mu.
func (h *holders) keptBy(held *lease.Lease) int {
	if held.Binding != lease.ByProcess {
		return 0
	}
	return h.outlived[processOf(held)]
}

// resume watches the holders of the leases from before a restart, and releases
// the leases of those that have ended. It runs before the clerk takes its first
// call.
func (h *holders) resume() {
	h.l.mu.RLock()
	standing := h.l.book.Leases()
	h.l.mu.RUnlock()
	var exited []*lease.Lease
	looked := map[process.ID]bool{}
	for _, each := range standing {
		if each.Binding != lease.ByProcess {
			continue
		}
		switch err := h.watchAgain(each); {
		case errors.Is(err, process.ErrGone) && !h.keep(each, looked):
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
// holder has ended. If so, it watches them, so that the lease ends with them. It looks for
// the processes of each holder once, and notes that in looked.
func (h *holders) keep(each *lease.Lease, looked map[process.ID]bool) bool {
	id := processOf(each)
	if each.Holder.Boot != h.l.boot {
		return false
	}
	first := !looked[id]
	looked[id] = true
	var remaining []process.ID
	h.l.mu.Lock()
	if first {
		if remaining = h.l.remaining(id); len(remaining) > 0 {
			h.outlived[id] = remaining[0].PID
		}
	}
	kept := h.outlived[id] != 0
	h.l.mu.Unlock()
	if !kept {
		return false
	}
	h.watches.addExited(id, watched(each))
	if first {
		h.follow(id, remaining)
	}
	return true
}

const awayText = "its process ended while the daemon was not running"

// releaseExited ends leases whose holders have ended, in one write.
func (h *holders) releaseExited(leases []*lease.Lease) {
	batch := make([]*call, len(leases))
	for i, each := range leases {
		batch[i] = &call{done: make(chan error, 1), do: func(now time.Time) error {
			change := lease.Change(lease.Release{Key: each.Key(), Fence: each.Fence, By: access.Daemon(), Why: awayText})
			switch {
			case each.Cancelled != nil:
				change = lease.Revoke{Key: each.Key(), Fence: each.Fence, By: access.Daemon(), Why: each.OverrunText()}
			case each.Implied && each.State == lease.Active && each.Holder.Boot == h.l.boot: // nobody knows when the process exited
				change = lease.Detach{Key: each.Key(), Fence: each.Fence}
			}
			_, err := h.l.apply(change, now)
			return err
		}}
	}
	h.l.work(batch)
	h.l.mu.Lock()
	defer h.l.mu.Unlock()
	for i, e := range batch {
		each := leases[i]
		switch err := <-e.done; { // with an error, the journal had no room
		case err == nil:
		case each.Implied && each.Holder.Boot == h.l.boot:
			h.endLater(overdue{process: processOf(each)})
		default:
			h.endLater(overdue{lease: each.Key(), fence: each.Fence, why: awayText})
		}
	}
}

// A lease that is bound to a process outlives it for as long as other processes
// of the lease use a device: they remain, and keep the lease. Otherwise a program
// that puts itself into the background, or a launcher that ends before its
// workers, would leave processes behind that may still grow, on memory that
// another lease has by then. The lease ends when the last of them has ended or
// has left the devices, so a process that uses no device keeps no lease.

// remaining lists the living processes that use a device under the leases of a
// holder, each once and without the holder itself, by their pids. It leaves out a process
// that has a nearer lease.
func (s *state) remaining(holder process.ID) []process.ID {
	var list []process.ID
	for uuid, o := range s.devices {
		here := s.standing.on(uuid)
		for u := range s.tied(o, holder) {
			for id := range here.Above(u.Process) {
				if id == holder && !s.processes.Ended(u.ID()) {
					list = append(list, u.ID())
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b process.ID) int { return cmp.Compare(a.PID, b.PID) })
	return slices.Compact(list)
}

// tied yields the processes on a device that are a holder, descend from it, or were started
// under one of its leases. It takes no time for the others.
func (s *state) tied(o *observed, holder process.ID) iter.Seq[*usedBy] {
	return func(yield func(*usedBy) bool) {
		for _, u := range o.below[holder] {
			if !u.gone && !yield(u) {
				return
			}
		}
		for held := range s.standing.heldBy(holder) {
			for _, u := range o.under[kinship.Origin{Lease: held.ID, Fence: held.Fence, UID: held.Holder.UID}] {
				if !u.gone && !slices.Contains(u.Ancestry, holder) && !yield(u) {
					return
				}
			}
		}
	}
}

// bound lists the leases that are bound to a process, oldest grant first.
func (s *state) bound(id process.ID) (bound []*lease.Lease) {
	for held := range s.book.HeldBy(lease.Holder{PID: id.PID, Start: id.Start, Boot: s.boot}) {
		if held.Binding == lease.ByProcess {
			bound = append(bound, held)
		}
	}
	slices.SortFunc(bound, func(a, b *lease.Lease) int { return cmp.Compare(a.Fence, b.Fence) })
	return bound
}

// forgetExited removes a process that has ended from its devices, with the memory
// it used: the kernel took that back before it reported the end. It also removes
// the other processes of its leases that have ended.
func (s *state) forgetExited(id process.ID) {
	for _, o := range s.devices {
		s.forget(o, func(yield func(*usedBy) bool) {
			for u := range s.tied(o, id) {
				if s.processes.Ended(u.ID()) && !yield(u) {
					return
				}
			}
		})
	}
}

// endOfHolder returns the change for a lease whose process has ended: the lease is
// released, or revoked if that was about to happen, or if it was cancelled. An implied
// lease that is not settled lasts without the process, unless a signal killed that: a
// program that only asks for others exits by itself.
func (s *state) endOfHolder(held *lease.Lease, killed bool) lease.Change {
	if r, revoking := s.revoking[held.Fence]; revoking {
		return lease.Revoke{Key: held.Key(), Fence: held.Fence, By: access.Daemon(), Why: r.why, Spared: r.spared}
	}
	if held.Cancelled != nil {
		return lease.Revoke{Key: held.Key(), Fence: held.Fence, By: access.Daemon(), Why: held.OverrunText()}
	}
	if held.Implied && !killed && held.State == lease.Active && s.inUse[held.Key()] != held.Fence {
		return lease.Detach{Key: held.Key(), Fence: held.Fence}
	}
	return lease.Release{Key: held.Key(), Fence: held.Fence, By: access.Daemon(), Why: "its process ended"}
}
