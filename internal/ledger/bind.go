package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

// ErrNoHolder refuses a process that must not hold a lease, because what ends a
// lease may end its processes.
var ErrNoHolder = errors.New("the process is the daemon, or one that the daemon descends from")

// Bind hands a lease that is bound to a process to another one, which must be of
// the same user as whoever asks. From then on the lease ends with that process,
// and no longer with the one before. A fence of zero means whichever there is.
func (l *Ledger) Bind(ctx context.Context, id string, fence uint64, pid int, by lease.Actor) (*lease.Lease, error) {
	next, err := l.successor(pid, by)
	if err != nil {
		return nil, fmt.Errorf("bind %s: %w", id, err)
	}
	var bound *lease.Lease
	err = l.submitFor(ctx, by, func(now time.Time) error {
		e, err := l.apply(lease.Bind{ID: id, Fence: fence, By: by, PID: next.PID, Start: next.Start, Boot: l.boot}, now)
		bound = e.After
		return err
	})
	if err != nil {
		return nil, err
	}
	err = l.watch(bound)
	switch {
	case errors.Is(err, process.ErrGone):
		l.endOf(next)
		return nil, fmt.Errorf("bind %s: %w, and the lease has ended with it", id, err)
	case err != nil: // too many open files, perhaps
		l.watchLater(bound)
	}
	return bound, nil
}

// successor is a process that somebody may hand a lease to.
func (l *Ledger) successor(pid int, by lease.Actor) (process.ID, error) {
	id, err := l.processes.Identify(pid)
	if err != nil {
		return id, err
	}
	uid, err := l.processes.UID(pid)
	if err != nil {
		return id, err
	}
	if !by.Any && uid != by.UID {
		return id, fmt.Errorf("process %d: %w", pid, lease.ErrNotYours)
	}
	if slices.Contains(l.ownLine(), id) {
		return id, fmt.Errorf("process %d: %w", pid, ErrNoHolder)
	}
	return id, nil
}
