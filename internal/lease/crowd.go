package lease

import (
	"errors"
	"fmt"
)

// What one user may have at a time, administrators excepted. Each lease costs
// memory, and a descriptor if it is bound to a process; each request that waits
// is looked at whenever something is given back.
const (
	MostLeases  = 1024
	MostWaiting = 256
)

// ErrCrowded refuses a user who has as much as one user may have.
var ErrCrowded = errors.New("one user may not have more")

// Crowded reports whether a user has as many leases as one user may have, or
// with waiting whether more requests of theirs wait than may.
func (b *Book) Crowded(user string, waiting bool) error {
	a := b.users[user]
	switch {
	case a == nil:
		return nil
	case waiting && a.waiting > MostWaiting:
		return fmt.Errorf("%d requests of %s wait already: %w", MostWaiting, user, ErrCrowded)
	case !waiting && a.leases >= MostLeases:
		return fmt.Errorf("%s holds %d leases already: %w", user, a.leases, ErrCrowded)
	}
	return nil
}
