package lease

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Rescope changes the scope of a lease: the names of the control groups whose
// processes are its own.
type Rescope struct {
	Key
	Fence       uint64 // zero means any
	Add, Remove []string
	By          access.Actor
}

func (x Rescope) apply(b *Book, now time.Time) (Effect, error) {
	e, err := b.find(access.Scope, x.Key, x.Fence, &x.By)
	if err != nil {
		return Effect{}, err
	}
	old, l := e.lease, *e.lease
	l.Scope = slices.DeleteFunc(slices.Clone(old.Scope), func(name string) bool { return slices.Contains(x.Remove, name) })
	for _, name := range x.Add {
		if !slices.Contains(l.Scope, name) {
			l.Scope = append(l.Scope, name)
		}
	}
	if detail := words.NamesProblem(l.Scope, MaxScope); detail != "" {
		return Effect{}, FieldErrors{{"add", detail}}
	}
	if len(l.Scope) > 0 && (old.State == Parked || old.Asked > 0 || e.want != nil) {
		return Effect{}, fmt.Errorf("give %s a scope: %w: it is parked, berth has shrunk it, or it waits to grow", x.ID, ErrState)
	}
	b.replace(e, &l)
	return Effect{Kind: Scoped, Time: now, Before: old, After: &l, By: x.By}, nil
}
