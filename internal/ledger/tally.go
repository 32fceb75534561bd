package ledger

import "github.com/berth-gpu/berth/internal/lease"

// Tallies returns what every user holds and waits for, by service.
func (l *Ledger) Tallies() map[lease.Party]lease.Tally {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.book.Tallies()
}
