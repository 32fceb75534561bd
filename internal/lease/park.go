package lease

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-gpu/berth/internal/access"
)

// Park marks a lease whose memory was moved off its devices. From then on the
// lease takes no slots, and only the memory that is still measured for it. Its time
// stands still: nothing is due for it until it is resumed.
type Park struct {
	Key
	Fence uint64 // zero means any
	By    access.Actor
	Why   string
}

func (p Park) apply(b *Book, now time.Time) (Effect, error) {
	e, err := b.find(access.Park, p.Key, p.Fence, &p.By)
	if err == nil {
		err = e.parkable(b)
	}
	if err != nil {
		return Effect{}, err
	}
	l := *e.lease
	l.State, l.ParkedAt = Parked, now
	return b.become(e, &l, WasParked, p.By, p.Why, now)
}

// Unparkable returns why a lease cannot be parked, whatever its service allows, or nil if
// it can. Only the book knows whether it has children: see Book.Unparkable.
func (l *Lease) Unparkable() error {
	why := ""
	switch {
	case l.State == Parked:
		return fmt.Errorf("park %s: %w: it is parked already", l.ID, ErrState)
	case len(l.Parts) != 1:
		why = "it is on several devices, and its memory can only return to all of them at once"
	case !l.Allows(MayPark):
		why = "it has a scope, so it belongs to a container or a job of another manager, which does not allow it"
	case l.Pool:
		why = "it is a pool, and the programs of its children would lose their memory"
	case l.Parent != "":
		why = "it is a part of lease " + l.Parent
	case l.EnforcedBy == "mps":
		why = "its programs run under MPS, and the driver does not move those"
	default:
		return nil
	}
	return fmt.Errorf("park %s: %w: %s", l.ID, ErrUnparkable, why)
}

// Unparkable returns why a lease cannot be parked, whatever its service allows, or nil if
// it can. A lease with children, held or waiting, cannot.
func (b *Book) Unparkable(k Key, fence uint64) error {
	by := access.Daemon()
	e, err := b.find(access.Park, k, fence, &by)
	if err != nil {
		return err
	}
	return e.parkable(b)
}

func (e *entry) parkable(b *Book) error {
	if err := e.lease.Unparkable(); err != nil {
		return err
	}
	child := ""
	for other := range b.grants.all {
		if other.lease.ParentFence == e.lease.Fence {
			child = other.lease.ID
		}
	}
	for w := range b.waiting.all {
		if parent, err := b.Parent(w.request); err == nil && parent == e.lease {
			child = w.request.ID
		}
	}
	if child != "" {
		return fmt.Errorf("park %s: %w: %s is a part of it", e.lease.ID, ErrUnparkable, child)
	}
	return nil
}

// Resume gives a parked lease its slots and memory again, if there is room. The
// caller resumes first and moves the memory back afterwards, because a process
// that finds no room when it returns is lost.
type Resume struct {
	Key
	Fence uint64 // zero means any
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
	l := *e.lease
	l.Parts = slices.Clone(l.Parts)
	for i, p := range e.lease.Parts {
		d, measured := e.places[i].device, e.places[i].measured
		if room := measured + max(d.Available(), 0); room < p.Memory && room >= l.returnsTo(i) {
			p.Memory, l.Parts[i].Memory = room, room
		}
		needs := max(p.Memory-measured, 0)
		if !d.hasRoom(needs, p.Slots, true) || !d.shares(e.lease) {
			return Effect{}, &OverSoldError{ID: r.ID, GPU: p.GPU, Sum: d.Sum, Needs: needs, NeedsSlots: p.Slots, Alone: !d.shares(e.lease)}
		}
	}
	l.unpark(now)
	effect, err := b.become(e, &l, Resumed, r.By, r.Why, now)
	if err == nil {
		e.warned, e.overrun = false, time.Time{} // its time limit is later than it was
		b.setAlarm(e)
	}
	return effect, err
}

// unpark makes a parked lease active. It moves the times of the lease on by how long it
// was parked, but lets it expire no later than a renewal now would.
func (l *Lease) unpark(now time.Time) {
	if away := now.Sub(l.ParkedAt); !l.ParkedAt.IsZero() && away > 0 { // an earlier berth did not say since when
		l.Paused += away
		if l.Binding == ByTTL {
			if l.Expires = l.Expires.Add(away); l.Expires.After(now.Add(l.TTL)) {
				l.Expires = now.Add(l.TTL)
			}
		}
	}
	l.State, l.ParkedAt, l.Returned = Active, time.Time{}, now
}

// become makes a lease another one that its request did not ask for.
func (b *Book) become(e *entry, l *Lease, kind Kind, by access.Actor, why string, now time.Time) (Effect, error) {
	if err := l.validate(); err != nil {
		return Effect{}, err
	}
	old, waited := e.lease, e.settleInto(b)
	b.replace(e, l)
	return Effect{Kind: kind, Time: now, Before: old, After: l, Request: waited, By: by, Why: why}, nil
}
