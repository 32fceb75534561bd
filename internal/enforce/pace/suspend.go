package pace

import "time"

// Suspend lets the processes of a lease run until Continue is called, whatever share it is
// held to. The caller is about to move their memory, and a driver waits forever for a
// stopped process. Suspend returns when no process of the lease is stopped.
//
// While their memory is away, processes may have to stand still, so Suspend takes them out
// of the file, of which the next daemon continues what is in it. It returns an error if that
// fails; Run tries again.
func (p *Pacer) Suspend(fence uint64) error {
	p.mu.Lock()
	p.suspended[fence]++
	l := p.leases[fence]
	p.mu.Unlock()
	if l != nil {
		l.mu.Lock()
		over := l.over
		l.mu.Unlock()
		if over != nil {
			p.guard.tell(order{Lease: fence, Free: true})
			const most = 5 * time.Second // longer than any pause; a late guardian is ended before
			select {
			case <-over:
			case <-time.After(most):
				return errNoGuardian
			}
		}
	}
	return p.drop(fence)
}

// Continue ends what one call of Suspend began.
func (p *Pacer) Continue(fence uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.suspended[fence]--; p.suspended[fence] == 0 {
		delete(p.suspended, fence)
	}
}
