package lease

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/internal/access"
)

// Claim notes that a lease from the journal of an earlier berth, which did not say so, is
// for a run. Whoever runs it has written down the fence.
type Claim struct {
	Key          // of the run
	Fence uint64 // of the lease
}

func (c Claim) apply(b *Book, now time.Time) (Effect, error) {
	e := b.standing(c.Key, c.Fence)
	switch {
	case e == nil || c.Fence == 0:
		return Effect{}, fmt.Errorf("claim %s: %w", c.ID, ErrUnknown)
	case e.lease.Run != (Run{}) || b.leases.get(c.Key) != nil || b.waiting.get(c.Key) != nil:
		return Effect{}, fmt.Errorf("claim %s: %w", c.ID, ErrDuplicate)
	}
	l := *e.lease
	l.Run = c.Run
	return b.become(e, &l, Claimed, access.Daemon(), "", now)
}

// RunError refuses to do to the lease or the request of a run what its job or its service
// decides.
type RunError struct{ Key }

func (e *RunError) Error() string {
	if service := e.Service(); service != "" {
		return "the lease " + e.ID + " belongs to the service " + service + ", whose program berth runs"
	}
	return "the lease " + e.ID + " belongs to a job"
}

// Service returns the name of the service whose program the run is; empty if it is of a
// job.
func (e *RunError) Service() string {
	if e.Run.Kind != OfService {
		return ""
	}
	return strings.TrimSuffix(e.ID, "-"+strconv.FormatInt(e.Run.Number, 10))
}

// Free returns an error for the key of a run: only the job or the service ends its lease,
// or changes what that has.
func (k Key) Free() error {
	if k.Run == (Run{}) {
		return nil
	}
	return &RunError{k}
}
