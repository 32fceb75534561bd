package ledger

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

// A lease that is bound to a process outlives it for as long as descendants of
// that process use a device: they are its heirs. A program that puts itself
// into the background, or a launcher that dies before its workers, would
// otherwise leave processes behind that may still grow, on memory that was
// given to somebody else. It ends when the last heir has ended or has left the
// devices, so it is never kept for a process that merely lingers.

// heirs lists the living descendants of a process that use a device, each once.
// What a descendant uses under a nearer lease is accounted for by that one. The
// caller holds mu.
func (l *Ledger) heirs(id process.ID) []process.ID {
	var list []process.ID
	for uuid, o := range l.devices {
		for _, u := range o.used {
			depth := slices.Index(u.line, id)
			if depth > 0 && !slices.Contains(list, u.line[0]) && l.processes.Alive(u.line[0]) && !l.holdsAny(u.line[:depth], uuid) {
				list = append(list, u.line[0])
			}
		}
	}
	return list
}

// heirOf is one of the processes that keep a lease since its own has ended, by
// pid; 0 if that has not. The caller holds mu.
func (l *Ledger) heirOf(held *lease.Lease) int {
	id := processOf(held)
	if held.Binding != lease.ByProcess || !l.bereaved[id] {
		return 0
	}
	heir := 0
	for _, each := range l.heirs(id) {
		if heir == 0 || each.PID < heir {
			heir = each.PID
		}
	}
	return heir
}

// bindings lists the leases that are bound to a process. The caller holds mu.
func (l *Ledger) bindings(id process.ID) []*lease.Lease {
	return slices.DeleteFunc(l.book.Leases(), func(held *lease.Lease) bool {
		return held.Binding != lease.ByProcess || processOf(held) != id || held.Holder.Boot != l.boot
	})
}

// endOf releases everything that a dead process held, also what was granted to
// it a moment ago and is not watched yet. Heirs keep it. If the journal refuses
// that now, the clerk goes on trying.
func (l *Ledger) endOf(id process.ID) {
	var heirs []process.ID
	err := l.submit(context.Background(), func(now time.Time) error {
		heirs = l.releaseEnded(id, now)
		return nil
	})
	switch {
	case errors.Is(err, ErrStopped): // the next start finds out
	case err != nil:
		l.mu.Lock()
		l.endLater(id)
		l.mu.Unlock()
	case len(heirs) > 0:
		l.follow(id, heirs)
	}
}

// releaseEnded releases everything that a dead process held, unless it has
// heirs, who keep it; those it returns. The caller holds mu.
func (l *Ledger) releaseEnded(id process.ID, now time.Time) (heirs []process.ID) {
	l.bury(id)
	bound := l.bindings(id)
	if heirs = l.heirs(id); len(heirs) > 0 && len(bound) > 0 {
		l.bereaved[id] = true
		return heirs
	}
	delete(l.bereaved, id)
	for _, held := range bound {
		_, _ = l.apply(l.farewell(held), now) // it stands, so the book takes it
	}
	return nil
}

// farewell is how a lease ends whose process has ended: it is released, or
// revoked if that was about to happen. The caller holds mu.
func (l *Ledger) farewell(held *lease.Lease) lease.Change {
	if c, condemned := l.condemned[held.ID]; condemned && c.fence == held.Fence {
		return lease.Revoke{ID: held.ID, Fence: held.Fence, Why: c.why}
	}
	return lease.Release{ID: held.ID, Fence: held.Fence, By: lease.Daemon(), Why: "its process ended"}
}

// follow watches one of the heirs of a dead process in its place; when that one
// ends, it is looked who is left.
func (l *Ledger) follow(id process.ID, heirs []process.ID) {
	l.holders.mu.Lock()
	defer l.holders.mu.Unlock()
	held := l.holders.byProcess[id]
	if held == nil {
		return // its leases have ended, or everything has
	}
	stop, err := l.processes.Watch(heirs[0], func() { l.endOf(id) })
	if errors.Is(err, process.ErrGone) {
		l.mu.Lock()
		l.endLater(id)
		l.mu.Unlock()
		return
	}
	if err != nil { // too many open files, perhaps: Observe looks as well
		return
	}
	held.stop()
	held.stop = stop
}

// disinherit ends what is kept for heirs that have left the devices. The caller
// holds mu.
func (l *Ledger) disinherit() {
	for id := range l.bereaved {
		if len(l.heirs(id)) == 0 {
			l.endLater(id)
		}
	}
}
