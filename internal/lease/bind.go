package lease

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/internal/access"
)

// Bind binds a lease of one process to another process, for example from a
// launcher to the program it has started. The lease keeps its fence and its user.
type Bind struct {
	Key
	Fence uint64 // zero means any
	By    access.Actor

	// The process that holds the lease from now on. The caller of Apply has
	// checked that By may speak for it.
	PID   int
	Start uint64
	Boot  string
}

func (x Bind) apply(b *Book, now time.Time) (Effect, error) {
	e, err := b.find(access.Bind, x.Key, x.Fence, &x.By)
	if err != nil {
		return Effect{}, err
	}
	old, l := e.lease, *e.lease
	if old.Binding != ByProcess {
		return Effect{}, fmt.Errorf("bind %s: %w: it is a %s lease", x.ID, ErrNotBound, string(old.Binding))
	}
	l.Holder.PID, l.Holder.Start, l.Holder.Boot = x.PID, x.Start, x.Boot
	l.Implied = false // the binding is explicit now
	if field, detail := bindingProblem(l.Binding, l.TTL, l.Holder); detail != "" {
		return Effect{}, FieldErrors{{field, detail}}
	}
	b.replace(e, &l)
	return Effect{Kind: Bound, Time: now, Before: old, After: &l, By: x.By}, nil
}
