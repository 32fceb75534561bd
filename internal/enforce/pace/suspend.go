package pace

import "time"

// Suspend has the processes of a lease run until release is called, whatever it is
// held to: their memory is about to be moved, and a driver waits for ever for a
// stopped process. It returns when nothing of the lease is stopped.
func (p *Pacer) Suspend(fence uint64) (release func()) {
	p.mu.Lock()
	p.suspended[fence]++
	l := p.leases[fence]
	p.mu.Unlock()
	if l != nil {
		p.awaitPause(l)
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.suspended[fence]--; p.suspended[fence] == 0 {
			delete(p.suspended, fence)
		}
	}
}

// awaitPause ends the present pause of a lease, and waits until it is over.
func (p *Pacer) awaitPause(l *paced) {
	l.mu.Lock()
	over := l.over
	l.mu.Unlock()
	if over == nil {
		return
	}
	p.guard.tell(order{Lease: l.fence, Free: true})
	const most = 5 * time.Second // longer than any pause; a guardian that is late is ended before
	limit := time.NewTimer(most)
	defer limit.Stop()
	select {
	case <-over:
	case <-limit.C:
	}
}

// isSuspended reports whether the processes of a lease must not be stopped.
func (p *Pacer) isSuspended(fence uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.suspended[fence] > 0
}
