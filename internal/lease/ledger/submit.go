package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/berth-gpu/berth/internal/access"
)

// mostErrands is the largest number of errands that one user may have with the clerk at a
// time. It is enough for them to share writes to the disk, and few enough that the errand
// of another user comes soon after them.
const mostErrands = 64

// submitFor submits an errand for an actor once fewer than mostErrands of the
// same user are under way. An actor who may exceed the limits of a user does not
// wait.
func (l *Ledger) submitFor(ctx context.Context, by access.Actor, do func(now time.Time) error) error {
	if access.May(by, access.Exceed, access.Object{}) == nil {
		return l.submit(ctx, do)
	}
	errands, err := l.limiter.Begin(ctx, by.UID)
	if err != nil {
		return err
	}
	defer errands.End()
	return l.submit(ctx, do)
}

// ErrStopped is the error of a ledger that has stopped.
var ErrStopped = errors.New("the daemon is stopping")

// submit runs an errand at once, or hands it to the clerk and waits for its result. Once
// the clerk has the errand, submit waits for the result even if ctx ends, because the
// caller would otherwise not know it. An errand may run twice, so anything that do does
// besides applying changes must allow for that.
func (l *Ledger) submit(ctx context.Context, do func(now time.Time) error) error {
	if done, err := l.here(do); done {
		return err
	}
	e := &errand{do: do, done: make(chan error, 1)}
	select {
	case l.errands <- e:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.finished:
		return ErrStopped
	}
	select {
	case err := <-e.done:
		return err
	case <-l.finished:
		select {
		case err := <-e.done:
			return err
		default:
			return ErrStopped
		}
	}
}
