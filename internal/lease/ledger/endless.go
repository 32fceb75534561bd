package ledger

import "github.com/berth-gpu/berth/internal/lease"

// StartUnknown reports whether nobody could know when a new request would start, and which lease
// without an end it would wait for; nil if for something else.
func (l *Ledger) StartUnknown(r lease.Request) (unknown bool, because *lease.Lease) {
	_ = l.suppose(r, func(request *lease.Request) { // it is refused otherwise, and does not wait
		if unknown = !l.aheadOf(request).StartIsKnown(request); unknown {
			because = l.endlessBefore(request)
		}
	})
	return unknown, because
}

// endlessBefore returns the oldest lease without an end beside which a request finds no room on
// one of its devices; nil if there is none. The caller holds mu.
func (s *state) endlessBefore(r *lease.Request) (found *lease.Lease) {
	for uuid := range s.devices {
		if !s.snapshot.Could(uuid, r) || s.book.FitsBesideEndless(uuid, r.Load(), r.Exclusive) {
			continue
		}
		for h := range s.book.On(uuid) {
			if h.Lease.Endless() && h.Lease.State == lease.Active && (found == nil || h.Lease.Fence < found.Fence) {
				found = h.Lease
			}
		}
	}
	return found
}

// Passed returns how many were granted before a waiting request because nobody knew when it
// would start.
func (l *Ledger) Passed(k lease.Key) int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.book.Passed(k)
}
