package ledger

import (
	"context"
	"sync"
	"time"

	"github.com/berth-gpu/berth/internal/access"
)

// mostErrands is how many errands one user may have with the clerk at a time. It
// is enough for them to share writes to the disk, and few enough that the errand
// of another user comes soon after them.
const mostErrands = 64

// turns keeps one user from filling the way to the clerk.
type turns struct {
	mu     sync.Mutex
	byUser map[int]*userTurns
}

// userTurns are the errands of one user.
type userTurns struct {
	free  chan struct{} // holds a token for each errand under way
	users int           // how many goroutines use this; guarded by turns.mu
}

func (t *turns) of(uid int) *userTurns {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.byUser[uid]
	if u == nil {
		u = &userTurns{free: make(chan struct{}, mostErrands)}
		if t.byUser == nil {
			t.byUser = map[int]*userTurns{}
		}
		t.byUser[uid] = u
	}
	u.users++
	return u
}

func (t *turns) done(uid int, u *userTurns) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if u.users--; u.users == 0 {
		delete(t.byUser, uid)
	}
}

// submitFor submits an errand for an actor once fewer than mostErrands of the
// same user are under way. An actor who may exceed the limits of a user does not
// wait.
func (l *Ledger) submitFor(ctx context.Context, by access.Actor, do func(now time.Time) error) error {
	if access.May(by, access.Exceed, access.Object{}) == nil {
		return l.submit(ctx, do)
	}
	u := l.turns.of(by.UID)
	defer l.turns.done(by.UID, u)
	select {
	case u.free <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.finished:
		return ErrStopped
	}
	defer func() { <-u.free }()
	return l.submit(ctx, do)
}
