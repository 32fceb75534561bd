package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

// Bind binds a lease of one process to another process of the user who asks.
// From then on the lease ends with the new process, and no longer with the old
// one. A fence of zero matches any fence.
func (l *Ledger) Bind(ctx context.Context, name lease.Name, fence uint64, pid int, by access.Actor) (*lease.Lease, error) {
	next, err := l.census.successor(pid, by)
	if err != nil {
		return nil, fmt.Errorf("bind %s: %w", name, err)
	}
	var bound *lease.Lease
	err = l.submitFor(ctx, by, func(now time.Time) error {
		k, err := l.book.Seek(&by, access.Bind, name, fence)
		if err != nil {
			return err
		}
		e, err := l.apply(lease.Bind{Key: k, Fence: fence, By: by, PID: next.PID, Start: next.Start, Boot: l.boot}, now)
		bound = e.After
		return err
	})
	if err != nil {
		return nil, err
	}
	err = l.holders.watch(bound)
	switch {
	case errors.Is(err, process.ErrGone):
		l.holders.exited(next)
		return nil, fmt.Errorf("bind %s: %w, so the lease has ended", name, err)
	case err != nil: // for example too many open files
		l.holders.watchLater(bound)
	}
	return bound, nil
}
