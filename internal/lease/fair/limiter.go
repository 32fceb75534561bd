package fair

import (
	"context"
	"sync"
)

// Limiter limits how many calls of one user are under way at a time. The zero value is
// ready once Most is set.
type Limiter struct {
	Most int // of one user

	mu     sync.Mutex
	byUser map[int]*Calls
}

// Calls counts the calls of one user.
type Calls struct {
	limiter  *Limiter
	uid      int
	underWay chan struct{} // has room for each that may be under way
	here     int           // how many are under way or wait; guarded by Limiter.mu
}

// Begin waits until another call of a user may be under way. It returns an
// error if ctx ends first. The caller calls End when the call is done.
func (l *Limiter) Begin(ctx context.Context, uid int) (*Calls, error) {
	e := l.join(uid)
	select {
	case e.underWay <- struct{}{}:
		return e, nil
	case <-ctx.Done():
		e.leave()
		return nil, context.Cause(ctx)
	}
}

// End lets the next call of the user begin.
func (e *Calls) End() {
	<-e.underWay
	e.leave()
}

// Len returns how many users have calls.
func (l *Limiter) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.byUser)
}

func (l *Limiter) join(uid int) *Calls {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.byUser[uid]
	if e == nil {
		e = &Calls{limiter: l, uid: uid, underWay: make(chan struct{}, l.Most)}
		if l.byUser == nil {
			l.byUser = map[int]*Calls{}
		}
		l.byUser[uid] = e
	}
	e.here++
	return e
}

// leave forgets the user if nothing else of theirs is here.
func (e *Calls) leave() {
	e.limiter.mu.Lock()
	defer e.limiter.mu.Unlock()
	if e.here--; e.here == 0 {
		delete(e.limiter.byUser, e.uid)
	}
}
