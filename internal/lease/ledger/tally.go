package ledger

import "github.com/berth-gpu/berth/internal/lease"

// Tallies returns what every user holds and waits for, by service.
func (l *Ledger) Tallies() map[lease.Party]lease.Tally {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.book.Tallies()
}

// DevicesOf lists the UUIDs of the devices that a service has leases on, in no
// order. It returns an error if the user may not ask in the name of the service.
func (l *Ledger) DevicesOf(service, user string) ([]string, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if err := l.settings.Knows(service); err != nil {
		return nil, err
	}
	known := l.settings.Services[service] // a service that is not configured serves everybody
	if err := known.Serves(user); err != nil {
		return nil, err
	}
	return l.book.DevicesOf(service), nil
}
