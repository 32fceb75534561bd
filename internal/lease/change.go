package lease

import (
	"time"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease/stored"
)

// Change is a change to the book: Ask, Withdraw, TimeOut, Grant, Claim, Renew, Keep,
// Bind, Settle, Detach, Resize, Split, Rescope, Release, Expire, Revoke, Park,
// Resume, Cancel, Warn or Overrun.
type Change interface {
	apply(b *Book, now time.Time) (Effect, error)
}

// Apply makes a change at time now, or returns an error and changes nothing.
func (b *Book) Apply(c Change, now time.Time) (Effect, error) { return c.apply(b, now) }

// Effect says what a change did.
type Effect struct {
	Kind   Kind
	Time   time.Time
	Before *Lease // the lease before the change; nil if there was none
	After  *Lease // the lease after the change; nil if it has ended
	// Request is the request that began or stopped waiting, if any.
	Request *Request
	By      access.Actor // who did it
	Why     string       // for people; may be empty
	Shared  bool         // for a grant: another lease has the same id
	// SharedOwn says of a grant that another lease of the same user has the same id: one of
	// the two is for a run.
	SharedOwn bool
	Spared    []string // see Revoke
}

// Ends reports whether the effect ends a lease.
func (e *Effect) Ends() bool { return e.Before != nil && e.After == nil }

// Grants reports whether the effect gave the request that stopped waiting what it asked
// for. A request for an existing lease also stops waiting when the lease ends or becomes
// something else.
func (e *Effect) Grants() bool {
	switch r := e.Request; {
	case r == nil:
		return false
	case r.Into == 0:
		return e.Kind == Granted
	case r.Size == 0:
		return e.Kind == Resumed
	default:
		return e.Kind == Resized && e.After.Parts[0].Memory >= r.Size
	}
}

// Kind says what kind of change an effect is.
type Kind string

// The kinds of effect. Durable ones have the names of their entries.
const (
	Asked     Kind = "ask"
	Withdrawn Kind = "withdraw"
	TimedOut  Kind = "timeout"
	Granted   Kind = Kind(stored.Grant)
	Renewed   Kind = Kind(stored.Renew)
	Bound     Kind = Kind(stored.Bind)
	Settled   Kind = "settle" // its entry is a Bind
	Detached  Kind = Kind(stored.Detach)
	Resized   Kind = Kind(stored.Resize)
	Released  Kind = Kind(stored.Release)
	Expired   Kind = Kind(stored.Expire)
	Revoked   Kind = Kind(stored.Revoke)
	WasParked Kind = Kind(stored.Park)
	Resumed   Kind = Kind(stored.Resume)
	Scoped    Kind = Kind(stored.Scope)
	Cancelled Kind = "cancel" // its entry is a Resize
	Claimed   Kind = "claim"  // its entry is a Resize
	Warned    Kind = "warn"
	Overran   Kind = "overrun"
)

// Durable reports whether the effect must be in the journal before anybody learns of it.
// Effects on requests alone are not durable: a client that waits has no answer yet, and
// asks again after a restart. Effects that a time limit makes due are not durable either.
func (e *Effect) Durable() bool { return (e.Before != nil || e.After != nil) && !e.Fleeting() }

// Fleeting reports whether the effect only notes that something is due for a lease and
// leaves the lease unchanged.
func (e *Effect) Fleeting() bool { return e.Kind == Warned || e.Kind == Overran }

// Lease returns the lease that the effect is about, as it is or as it last was;
// nil if the effect is about a request only.
func (e *Effect) Lease() *Lease {
	if e.After != nil {
		return e.After
	}
	return e.Before
}

// Takes reports whether the effect took something of a device. All other effects
// may use the last room on a disk: a release must not be lost, and a renewal must
// keep its lease.
func (e *Effect) Takes() bool {
	return e.Before == nil || e.Kind == Resumed || e.Kind == Resized && e.After.Total().Memory > e.Before.Total().Memory
}

// MovesUse reports whether the effect may change which leases the processes on a device are
// charged to, or how much of what they use: not if it changes only when the lease ends.
func (e *Effect) MovesUse() bool {
	return !e.Fleeting() && e.Kind != Renewed && e.Kind != Settled && e.Kind != Cancelled
}

// ChangesKin reports whether other processes belong to the lease than before.
func (e *Effect) ChangesKin() bool { return e.Kind == Bound || e.Kind == Scoped }

// SetsScope reports whether somebody chose control groups for a lease: a grant with
// a scope, or another scope than before.
func (e *Effect) SetsScope() bool {
	return e.Kind == Scoped || e.Kind == Granted && len(e.After.Scope) > 0
}

// OnOthers reports whether an actor acted on a lease or a request of another user. A
// grant from the queue does not count, because asking for it did.
func (e *Effect) OnOthers() bool {
	if e.By.Door == access.Itself || e.By.Door == "" || e.Grants() {
		return false
	}
	if subject := e.Lease(); subject != nil {
		return !access.Owns(e.By, subject.Object())
	}
	return !access.Owns(e.By, e.Request.Object())
}

// Revert undoes effects that the journal refused. They must be the latest ones,
// in the order in which they happened. Revert does not return fences: the book
// never uses them again.
func (b *Book) Revert(effects ...Effect) {
	for i := len(effects) - 1; i >= 0; i-- {
		b.revert(&effects[i])
	}
}

func (b *Book) revert(e *Effect) {
	switch {
	case e.Before == nil && e.After != nil:
		b.disown(b.grants.get(e.After.Fence))
	case e.Before != nil && e.After == nil:
		b.insert(e.Before, nil)
	case e.Fleeting():
		b.forget(b.grants.get(e.Before.Fence), e.Kind)
	case e.Before != nil:
		b.replace(b.grants.get(e.Before.Fence), e.Before)
	}
	switch {
	case e.Kind == Asked:
		b.leave(b.waiting.get(e.Request.Key()))
	case e.Request != nil:
		b.enqueue(e.Request)
	}
}

// disown removes a lease whose processes may go on: what they use counts as foreign, until
// the next measurement.
func (b *Book) disown(e *entry) {
	b.remove(e)
	for _, p := range e.places {
		p.device.Foreign += p.measured
	}
}
