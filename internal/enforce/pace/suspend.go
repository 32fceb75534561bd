package pace

import "time"

// Suspend lets the processes of a lease run until Continue is called, whatever share it is
// held to. The caller is about to move their memory, and a driver waits forever for a
// stopped process. Suspend returns when no process of the lease is stopped.
func (p *Pacer) Suspend(fence uint64) {
	p.mu.Lock()
	p.suspended[fence]++
	l := p.leases[fence]
	p.mu.Unlock()
	if l == nil {
		return
	}
	l.mu.Lock()
	over := l.over
	l.mu.Unlock()
	if over == nil {
		return
	}
	p.guard.tell(order{Lease: fence, Free: true})
	const most = 5 * time.Second // longer than any pause; a late guardian is ended before
	select {
	case <-over:
	case <-time.After(most):
	}
}

// Continue ends what one call of Suspend began.
func (p *Pacer) Continue(fence uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.suspended[fence]--; p.suspended[fence] == 0 {
		delete(p.suspended, fence)
	}
}
