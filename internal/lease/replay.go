package lease

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-gpu/berth/internal/lease/stored"
)

// ErrReplay refuses an entry that cannot follow those before it: some are
// missing, or it is from another journal.
var ErrReplay = errors.New("the record does not follow from those before it")

// Replay applies an entry to the book. Entries are facts: Replay does not check
// that there is room or that the devices are known. But it refuses an entry that
// contradicts the book, and then changes nothing.
func (b *Book) Replay(r *stored.Entry) error {
	if err := b.replay(r); err != nil {
		return fmt.Errorf("replay %s %s (fence %d): %w", string(r.Kind), r.ID, r.Fence, err)
	}
	return nil
}

// Read decodes an entry from the journal and applies it to the book. If Read
// refuses an entry, the journal contradicts itself, unless the error is a
// *stored.VersionError.
func (b *Book) Read(data []byte) (stored.Entry, error) {
	r, _, err := b.Follow(data)
	return r, err
}

// Follow does what Read does, and also returns what the entry says of a lease: its kind,
// its time, the lease before and after it, who did it and why.
func (b *Book) Follow(data []byte) (stored.Entry, Effect, error) {
	r, err := decode(data)
	if err != nil {
		return r, Effect{}, err
	}
	e := Effect{Kind: Kind(r.Kind), Time: time.Unix(0, r.Time), Before: b.leaseOf(&r), By: restoredBy(&r.By), Why: r.Why}
	if err := b.Replay(&r); err != nil {
		return r, Effect{}, err
	}
	e.After = b.leaseOf(&r)
	return r, e, nil
}

// leaseOf returns the lease of an entry; nil if there is none.
func (b *Book) leaseOf(r *stored.Entry) *Lease {
	if e := b.granted(r.ID, r.Fence); e != nil {
		return e.lease
	}
	return nil
}

// granted returns the lease with an id and a fence; nil if there is none. An entry does
// not name the owner of its lease: the fence identifies it.
func (b *Book) granted(id string, fence uint64) *entry {
	for e := range b.leases.called(id) {
		if e.lease.Fence == fence {
			return e
		}
	}
	return nil
}

func (b *Book) replay(r *stored.Entry) error {
	switch r.Kind {
	case stored.Fence:
		if r.Fence < b.fence {
			return fmt.Errorf("%w: a lease already has fence %d", ErrReplay, b.fence)
		}
		b.fence = r.Fence
		return nil
	case stored.Grant:
		return b.replayGrant(r)
	case stored.Audit:
		return nil // it is not about the book
	}
	e := b.granted(r.ID, r.Fence)
	if e == nil {
		return fmt.Errorf("%w: there is no such lease", ErrReplay)
	}
	l := *e.lease
	switch r.Kind {
	case stored.Release, stored.Expire, stored.Revoke:
		b.remove(e)
		return nil
	case stored.Renew:
		if TTLProblem(time.Duration(r.TTL)) != "" || l.Binding != ByTTL {
			return fmt.Errorf("%w: the lease cannot be renewed by %s", ErrReplay, time.Duration(r.TTL))
		}
		l.TTL, l.Expires = time.Duration(r.TTL), time.Unix(0, r.Expires)
	case stored.Bind:
		if r.Lease == nil || l.Binding != ByProcess && (l.Binding != ByName || r.Lease.Binding != string(ByProcess)) || r.Lease.PID <= 0 || r.Lease.Boot == "" {
			return fmt.Errorf("%w: the lease cannot be bound to the process in the record", ErrReplay)
		}
		l.Binding, l.Holder.PID, l.Holder.Start, l.Holder.Boot = ByProcess, r.Lease.PID, r.Lease.Start, r.Lease.Boot
		l.Implied = r.Lease.Implied
	case stored.Detach, stored.Resize:
		return b.replayWhole(e, r)
	case stored.Scope:
		if r.Lease == nil {
			return fmt.Errorf("%w: it has no scope in it", ErrReplay)
		}
		if !l.Pool { // an earlier berth could give a pool a scope
			l.Scope = r.Lease.Scope
		}
	case stored.Park, stored.Resume:
		if r.Lease != nil {
			return b.replayWhole(e, r)
		}
		l.State = stateAfter(r.Kind, l.State) // an earlier berth wrote no lease
	default:
		return fmt.Errorf("%w: kind %q is not known", ErrReplay, string(r.Kind))
	}
	b.replace(e, &l)
	return nil
}

// stateAfter returns the state of a lease after an entry of a kind.
func stateAfter(k stored.Kind, before State) State {
	switch k {
	case stored.Park:
		return Parked
	case stored.Resume:
		return Active
	}
	return before
}

// replayWhole replays an entry that holds the whole new state of a lease.
func (b *Book) replayWhole(e *entry, r *stored.Entry) error {
	if r.Lease == nil {
		return fmt.Errorf("%w: it has no lease in it", ErrReplay)
	}
	l := restored(r)
	l.By = e.lease.By // the entry says who changed it
	if l.ParentFence = e.lease.ParentFence; l.Run == (Run{}) {
		l.Run = e.lease.Run // an earlier berth wrote none
	}
	sameDevices := slices.EqualFunc(l.Parts, e.lease.Parts, func(a, b Part) bool { return a.GPU == b.GPU })
	if !sameDevices || !l.Holder.Same(e.lease.Holder) || l.Pool != e.lease.Pool || l.From != e.lease.From || l.State != stateAfter(r.Kind, e.lease.State) {
		return fmt.Errorf("%w: it is about another lease", ErrReplay)
	}
	if err := l.validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrReplay, err)
	}
	if other := b.leases.get(l.Key()); other != nil && other != e {
		return fmt.Errorf("%w: %w", ErrReplay, ErrDuplicate)
	}
	b.replace(e, l)
	return nil
}

func (b *Book) replayGrant(r *stored.Entry) error {
	switch {
	case r.Lease == nil:
		return fmt.Errorf("%w: the record has no lease in it", ErrReplay)
	case r.Fence <= b.fence:
		return fmt.Errorf("%w: an earlier record has fence %d", ErrReplay, b.fence)
	}
	l := restored(r)
	if b.leases.get(l.Key()) != nil {
		return fmt.Errorf("%w: %w", ErrReplay, ErrDuplicate)
	}
	if err := l.validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrReplay, err)
	}
	if l.State != Active && l.State != Parked {
		return fmt.Errorf("%w: state %q is not known", ErrReplay, string(l.State))
	}
	if l.Parent != "" && l.ParentFence == 0 { // an earlier berth did not write it
		if parent := b.Standing(Key{Owner: l.Holder.Owner(), ID: l.Parent}, 0); parent != nil {
			l.ParentFence = parent.Fence
		}
	}
	b.fence = r.Fence
	b.insert(l, nil)
	return nil
}
