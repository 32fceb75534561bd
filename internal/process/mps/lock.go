package mps

import "context"

// lock waits until no other goroutine works on the daemon of a device and a user. The
// caller calls unlock when it is done.
func (p *Pool) lock(ctx context.Context, k key) (unlock func(), err error) {
	lock := p.lockOf(k)
	select {
	case lock <- struct{}{}:
		return func() { <-lock; p.nudge() }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// tryLock does the same as lock, but does not wait.
func (p *Pool) tryLock(k key) (unlock func(), ours bool) {
	lock := p.lockOf(k)
	select {
	case lock <- struct{}{}:
		return func() { <-lock; p.nudge() }, true
	default:
		return nil, false
	}
}

func (p *Pool) lockOf(k key) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	lock := p.locks[k]
	if lock == nil {
		lock = make(chan struct{}, 1)
		p.locks[k] = lock
	}
	return lock
}
