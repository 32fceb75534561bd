package ledger

import (
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/text/words"
)

// overrunText says why a lease ends when it has reached its time limit.
func overrunText(l *lease.Lease) string {
	return "its time limit of " + words.Duration(l.TimeLimit) + " is over"
}

// revokeIfAlone turns the notice that a lease has reached its time limit into its
// revocation, if the ledger is alone: then nobody else ends its processes.
func (s *state) revokeIfAlone(c lease.Change, alone bool) lease.Change {
	over, is := c.(lease.Overrun)
	if !is || !alone {
		return c
	}
	held := s.book.Lease(over.Key)
	if held == nil {
		return c
	}
	return lease.Revoke{Key: over.Key, Fence: over.Fence, By: access.Daemon(), Why: overrunText(held)}
}
