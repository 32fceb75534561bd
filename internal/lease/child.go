package lease

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/text/words"
)

// A lease can be the child of another lease of the same user, on the same devices. A
// launcher holds the parent, which has the slots, and each program that it starts has a
// child, which has the memory of that program. A child may have neither memory nor slots
// and use those of its parent.
//
// If the parent itself has the memory that a child asks for, Split takes it from the
// parent. So a launcher can wait for the slot and the memory of its first program in one
// request.
//
// A child does not end with its parent: it belongs to a process of its own. So it knows
// its parent by fence, and a later lease with the id of its parent is nothing to it.

// ErrParent refuses a lease as the parent of another one.
var ErrParent = errors.New("the lease cannot be its parent")

// Parent returns the lease that a request names as its parent; nil if it names
// none.
func (b *Book) Parent(r *Request) (*Lease, error) {
	if r.Parent == "" {
		return nil, nil
	}
	e, why := b.Standing(Key{Owner: r.Holder.Owner(), ID: r.Parent}, r.ParentFence), ""
	switch {
	case e == nil && r.ParentFence != 0:
		why = "it has ended"
	case e == nil:
		why = "the user has no lease with that id"
	case e.State != Active:
		why = "it is " + string(e.State)
	case e.Cancelled != nil:
		why = e.OverrunText()
	default:
		return e, nil
	}
	return nil, fmt.Errorf("ask for %s as a child of %s: %w: %s", r.ID, r.Parent, ErrParent, why)
}

// verifyChild refuses a child whose parent has ended or is on other devices.
func (b *Book) verifyChild(l *Lease) error {
	if l.Parent == "" {
		if l.From != 0 {
			return fmt.Errorf("grant %s: %w: it names none, and a pool", l.ID, ErrParent)
		}
		return nil
	}
	parent, err := b.Parent(&Request{ID: l.ID, Holder: l.Holder, Parent: l.Parent, ParentFence: l.ParentFence})
	if err != nil {
		return err
	}
	l.ParentFence = parent.Fence
	for _, p := range l.Parts {
		if !parent.On(p.GPU) {
			return fmt.Errorf("grant %s as a child of %s: %w: it has nothing on %s", l.ID, l.Parent, ErrParent, p.GPU)
		}
	}
	return b.verifyPool(l, parent)
}

// limitChild makes a lease that takes memory of its parent end no later than that. Otherwise
// memory could be passed on from child to child, each with a time of its own, and whoever
// waits for its end would wait for ever.
func (b *Book) limitChild(l *Lease, now time.Time) error {
	parent := b.grants.get(l.ParentFence).lease
	ends, limited := parent.Ends()
	left := ends.Sub(now).Truncate(time.Second)
	switch {
	case !limited || l.TimeLimit > 0 && l.TimeLimit <= left:
		return nil
	case parent.ending(now):
		return fmt.Errorf("grant %s as a child of %s: %w: %s", l.ID, l.Parent, ErrParent, parent.OverrunText())
	case l.TimeLimit > 0 && !l.Imposed:
		l.AddNote("ends after %s, with its parent", words.Duration(left))
	}
	l.TimeLimit, l.Imposed, l.Unchosen = left, parent.Imposed, parent.Unchosen
	return nil
}

// ending reports whether the time limit leaves a lease too little time for a child that takes
// memory of it.
func (l *Lease) ending(now time.Time) bool {
	ends, limited := l.Ends()
	return limited && ends.Sub(now) < MinTime
}

// On reports whether the lease has a part on a device.
func (l *Lease) On(uuid string) bool {
	return slices.ContainsFunc(l.Parts, func(p Part) bool { return p.GPU == uuid })
}

// CanSplit reports whether Split can take this much memory out of a lease on each of its
// devices. The lease keeps what its own processes use, and must keep something.
func (b *Book) CanSplit(k Key, memory gpu.MiB) bool {
	e := b.leases.get(k)
	return e != nil && e.canSplit(memory)
}

func (e *entry) canSplit(memory gpu.MiB) bool {
	l := e.lease
	if memory == 0 || l.Pool || l.divisible() != nil || l.EnforcedBy == "framework" {
		return memory == 0 && l.State == Active && !l.Pool
	}
	for i, p := range l.Parts {
		if p.Memory-e.places[i].measured < memory || p.Memory == memory && p.Slots == 0 && l.Parent == "" {
			return false
		}
	}
	return true
}

// Split takes memory out of a lease for a child, which the caller grants in the
// same group of changes (see Grant.Split).
type Split struct {
	Key
	Memory gpu.MiB // on each device
	By     access.Actor
}

func (s Split) apply(b *Book, now time.Time) (Effect, error) {
	e, err := b.find(access.Resize, s.Key, 0, &s.By)
	if err != nil {
		return Effect{}, err
	}
	l := *e.lease
	if !e.canSplit(s.Memory) {
		return Effect{}, fmt.Errorf("split %s off %s: %w", s.Memory.Exact(), s.ID, ErrState)
	}
	if l.ending(now) {
		return Effect{}, fmt.Errorf("split %s off %s: %w: %s", s.Memory.Exact(), s.ID, ErrParent, l.OverrunText())
	}
	l.Parts = slices.Clone(l.Parts)
	for i := range l.Parts {
		l.Parts[i].Memory -= s.Memory
	}
	l.Asked = max(l.Asked-s.Memory, 0) // the child has that
	return b.become(e, &l, Resized, s.By, "a child of it has the difference", now)
}

// kin connects a lease that has children with them, also when it has ended.
type kin struct {
	entry    *entry // nil if the lease has ended
	children int
	devices  int // of the children, each for each child
}

// adopt connects a lease that comes into the book with its children and with its parent.
// While a parent stands, its children are on its devices, which count once.
func (b *Book) adopt(e *entry) {
	if own := b.kin[e.lease.Fence]; own != nil {
		own.entry = e
		e.user.GPUs -= own.devices
	}
	if e.lease.ParentFence == 0 {
		return
	}
	above := b.kin[e.lease.ParentFence]
	if above == nil {
		above = &kin{entry: b.grants.get(e.lease.ParentFence)}
		b.kin[e.lease.ParentFence] = above
	}
	above.children++
	above.devices += len(e.lease.Parts)
	if above.entry != nil {
		e.user.GPUs -= len(e.lease.Parts)
	}
}

// orphan undoes adopt.
func (b *Book) orphan(e *entry) {
	if own := b.kin[e.lease.Fence]; own != nil {
		own.entry = nil
		e.user.GPUs += own.devices
	}
	above := b.kin[e.lease.ParentFence]
	if above == nil {
		return
	}
	above.children--
	above.devices -= len(e.lease.Parts)
	if above.entry != nil {
		e.user.GPUs += len(e.lease.Parts)
	}
	if above.children == 0 {
		delete(b.kin, e.lease.ParentFence)
	}
}
