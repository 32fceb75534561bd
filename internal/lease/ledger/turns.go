package ledger

import (
	"context"
	"time"

	"github.com/berth-gpu/berth/internal/access"
)

// mostErrands is how many errands one user may have with the clerk at a time. It
// is enough for them to share writes to the disk, and few enough that the errand
// of another user comes soon after them.
const mostErrands = 64

// submitFor submits an errand for an actor once fewer than mostErrands of the
// same user are under way. An actor who may exceed the limits of a user does not
// wait.
func (l *Ledger) submitFor(ctx context.Context, by access.Actor, do func(now time.Time) error) error {
	if access.May(by, access.Exceed, access.Object{}) == nil {
		return l.submit(ctx, do)
	}
	u := l.turns.Of(by.UID)
	defer l.turns.Done(by.UID, u)
	select {
	case u.Free <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.finished:
		return ErrStopped
	}
	defer func() { <-u.Free }()
	return l.submit(ctx, do)
}
