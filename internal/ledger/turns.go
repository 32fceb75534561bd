package ledger

import (
	"context"
	"sync"
	"time"

	"github.com/berth-gpu/berth/internal/access"
)

// mostErrands is how many errands of one user stand before the clerk at a time.
// It is enough to share the writes to the disk among them, and everybody else's
// errand comes right after them.
const mostErrands = 64

// turns keeps one user from filling the way to the clerk.
type turns struct {
	mu     sync.Mutex
	byUser map[int]*userTurns
}

// userTurns are the errands of one user.
type userTurns struct {
	free  chan struct{} // holds a token for each that is under way
	users int           // who use this; guarded by turns.mu
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

// submitFor hands an errand of somebody to the clerk when it is their turn.
// Those who may exceed the limits of a user need not wait for one.
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
