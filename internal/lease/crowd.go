package lease

import (
	"errors"
	"fmt"
)

// The most that one user may have at a time, except for administrators. Each
// lease costs memory, and a file descriptor if it is bound to a process. Each
// waiting request costs memory and a connection.
const (
	MostLeases  = 1024
	MostWaiting = 256
)

// ErrCrowded refuses a user who has as much as one user may have.
var ErrCrowded = errors.New("one user may not have more")

// Crowded returns an error if a user holds MostLeases leases, or, if waiting is
// true, if more than MostWaiting requests of the user wait.
func (b *Book) Crowded(h Holder, waiting bool) error {
	a := b.users[h.Owner()]
	switch {
	case a == nil:
		return nil
	case waiting && a.waiting > MostWaiting:
		return fmt.Errorf("%d requests of %s wait already: %w", MostWaiting, h.User, ErrCrowded)
	case !waiting && a.leases >= MostLeases:
		return fmt.Errorf("%s holds %d leases already: %w", h.User, a.leases, ErrCrowded)
	}
	return nil
}
