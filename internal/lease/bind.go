package lease

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/internal/access"
)

// Bind hands a lease that is bound to a process to another process, for example
// from a launcher to what it has started. The lease is the same, with the same
// fence; it still belongs to the same user.
type Bind struct {
	ID    string
	Fence uint64 // zero: whichever there is
	By    access.Actor

	// The process that has it from now on. Whoever applies this has seen to it
	// that By may speak for it.
	PID   int
	Start uint64
	Boot  string
}

func (x Bind) apply(b *Book, now time.Time) (Effect, error) {
	e, err := b.find(access.Bind, x.ID, x.Fence, &x.By)
	if err != nil {
		return Effect{}, err
	}
	old, l := e.lease, *e.lease
	if old.Binding != ByProcess {
		return Effect{}, fmt.Errorf("bind %s: %w: it is a %s lease", x.ID, ErrNotBound, string(old.Binding))
	}
	l.Holder.PID, l.Holder.Start, l.Holder.Boot = x.PID, x.Start, x.Boot
	if field, detail := bindingProblem(l.Binding, l.TTL, l.Holder); detail != "" {
		return Effect{}, FieldErrors{{field, detail}}
	}
	b.replace(e, &l)
	return Effect{Kind: Bound, Time: now, Before: old, After: &l, By: x.By}, nil
}
