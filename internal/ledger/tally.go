package ledger

import "github.com/berth-gpu/berth/internal/lease"

// Tallies returns what every user holds and waits for, by service.
func (l *Ledger) Tallies() map[lease.Party]lease.Tally {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.book.Tallies()
}

// DevicesOf lists the UUIDs of the devices that a service has leases on, in no
// order.
func (l *Ledger) DevicesOf(service string) []string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.book.DevicesOf(service)
}

// Serves returns an error if a user may not ask in the name of a service.
func (l *Ledger) Serves(service, user string) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if err := l.settings.knows(service); err != nil {
		return err
	}
	known := l.settings.Services[service] // a service that is not configured serves everybody
	return known.Serves(user)
}
