package lease

import (
	"time"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/record"
)

// Change is something that is to happen to the book: Ask, Withdraw, TimeOut,
// Grant, Renew, Bind, Release, Expire, Revoke, Park or Resume.
type Change interface {
	apply(b *Book, now time.Time) (Effect, error)
}

// Apply makes a change at a time, or returns an error and changes nothing.
func (b *Book) Apply(c Change, now time.Time) (Effect, error) { return c.apply(b, now) }

// Effect is what a change did.
type Effect struct {
	Kind   Kind
	Time   time.Time
	Before *Lease // as it was; nil: there was none
	After  *Lease // as it is; nil: there is none any more
	// Request is the one that began to wait or stopped waiting, if any did.
	Request *Request
	By      access.Actor // who did it
	Why     string       // for people; empty: nothing to add
}

// Kind says what happened.
type Kind string

// The kinds of effect. Those that are durable have the names of their records.
const (
	Asked     Kind = "ask"
	Withdrawn Kind = "withdraw"
	TimedOut  Kind = "timeout"
	Granted   Kind = Kind(record.Grant)
	Renewed   Kind = Kind(record.Renew)
	Bound     Kind = Kind(record.Bind)
	Released  Kind = Kind(record.Release)
	Expired   Kind = Kind(record.Expire)
	Revoked   Kind = Kind(record.Revoke)
	WasParked Kind = Kind(record.Park)
	Resumed   Kind = Kind(record.Resume)
)

// Durable reports whether the effect must be written down before anybody is
// told of it. What happens to requests is not: who waits has no answer yet, and
// asks again after a restart.
func (e *Effect) Durable() bool { return e.Before != nil || e.After != nil }

// Lease is the lease that the effect is about, as it is or as it last was; nil
// if it is about a request only.
func (e *Effect) Lease() *Lease {
	if e.After != nil {
		return e.After
	}
	return e.Before
}

// Revert takes back effects that could not be written down. They must be the
// latest ones, and are given in the order in which they happened. Fences that
// were used up stay used up.
func (b *Book) Revert(effects ...Effect) {
	for i := len(effects) - 1; i >= 0; i-- {
		b.revert(&effects[i])
	}
}

func (b *Book) revert(e *Effect) {
	switch {
	case e.Before == nil && e.After != nil:
		b.disown(b.leases[e.After.ID])
	case e.Before != nil && e.After == nil:
		b.insert(e.Before, nil)
	case e.Before != nil:
		b.replace(b.leases[e.Before.ID], e.Before)
	}
	switch {
	case e.Kind == Asked:
		b.leave(b.waiting[e.Request.ID])
	case e.Request != nil:
		b.enqueue(e.Request)
	}
}

// disown takes a lease out as if it had never been: what its processes use is
// foreign again.
func (b *Book) disown(e *entry) {
	b.remove(e)
	for _, p := range e.places {
		p.device.Foreign += p.measured
	}
}
