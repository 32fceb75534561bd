package ledger

import "github.com/berth-gpu/berth/internal/lease"

// Endless returns a lease without an end that a new request would wait for, if nobody could
// know when the request starts. It returns nil if that is known.
func (l *Ledger) Endless(r lease.Request) (found *lease.Lease) {
	_ = l.suppose(r, func(request *lease.Request) { // it is refused otherwise, and does not wait
		if l.aheadOf(request).StartIsKnown(request) {
			return
		}
		for uuid := range l.devices {
			if !l.snapshot.Could(uuid, request) || l.book.FitsBesideEndless(uuid, request) {
				continue
			}
			for h := range l.book.On(uuid) {
				if h.Lease.Endless() && h.Lease.State == lease.Active && (found == nil || h.Lease.Fence < found.Fence) {
					found = h.Lease
				}
			}
		}
	})
	return found
}

// Passed returns how many were granted before a waiting request because nobody knew when it
// would start.
func (l *Ledger) Passed(k lease.Key) int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if r := l.book.Request(k); r != nil {
		return l.book.Passed(r, 0)
	}
	return 0
}
