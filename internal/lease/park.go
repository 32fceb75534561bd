package lease

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/internal/access"
)

// Park marks a lease whose memory was moved off its devices. From then on the
// lease takes no slots, and only the memory that is still measured for it.
type Park struct {
	Key
	Fence uint64 // zero: any
	By    access.Actor
	Why   string
}

func (p Park) apply(b *Book, now time.Time) (Effect, error) {
	e, err := b.find(access.Park, p.Key, p.Fence, &p.By)
	switch {
	case err != nil:
		return Effect{}, err
	case e.lease.State != Active:
		return Effect{}, fmt.Errorf("park %s: %w: it is %s", p.ID, ErrState, string(e.lease.State))
	}
	return b.become(e, Parked, WasParked, p.By, p.Why, now), nil
}

// Resume gives a parked lease its slots and memory again, if there is room. The
// caller resumes first and moves the memory back afterwards, because a process
// that finds no room when it returns is lost.
type Resume struct {
	Key
	Fence uint64 // zero: any
	By    access.Actor
	Why   string
}

func (r Resume) apply(b *Book, now time.Time) (Effect, error) {
	e, err := b.find(access.Resume, r.Key, r.Fence, &r.By)
	switch {
	case err != nil:
		return Effect{}, err
	case e.lease.State != Parked:
		return Effect{}, fmt.Errorf("resume %s: %w: it is %s", r.ID, ErrState, string(e.lease.State))
	}
	for i, p := range e.lease.Parts {
		d := e.places[i].device
		needs := max(p.Memory-e.places[i].measured, 0)
		if !d.hasRoom(needs, p.Slots, true) {
			return Effect{}, &OverSoldError{ID: r.ID, GPU: p.GPU, Sum: d.Sum, Needs: needs, NeedsSlots: p.Slots}
		}
	}
	return b.become(e, Active, Resumed, r.By, r.Why, now), nil
}

func (b *Book) become(e *entry, s State, kind Kind, by access.Actor, why string, now time.Time) Effect {
	old, l := e.lease, *e.lease
	l.State = s
	b.replace(e, &l)
	return Effect{Kind: kind, Time: now, Before: old, After: &l, By: by, Why: why}
}
