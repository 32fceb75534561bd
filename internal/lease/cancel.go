package lease

import (
	"errors"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/internal/access"
)

// ErrScoped refuses to end the programs of a lease that somebody other than them asked
// for, and who would start them again.
var ErrScoped = errors.New("its programs belong to another manager, which would start them again")

// Cancellation says that somebody asked to end the programs of a lease.
type Cancellation struct {
	At  time.Time
	By  access.Actor // as it was then; the journal does not keep the role
	Why string       // for people; may be empty
	All bool         // it reaches every process of the lease, not only those that its user could signal
}

// Cancel asks to end the programs of a lease, and the lease with them. The lease then ends
// as one whose time limit is over: an Overrun is due at once, also if the lease is parked,
// and again until it is revoked. What was asked survives the end of the daemon.
type Cancel struct {
	Key
	Fence uint64 // zero means any
	By    access.Actor
	Why   string
}

func (c Cancel) apply(b *Book, now time.Time) (Effect, error) {
	e, err := b.find(access.Cancel, c.Key, c.Fence, &c.By)
	switch {
	case err != nil:
		return Effect{}, err
	case len(e.lease.Scope) > 0:
		return Effect{}, fmt.Errorf("cancel %s: %w", c.ID, ErrScoped)
	}
	asked := &Cancellation{At: now, By: c.By, Why: c.Why, All: access.May(c.By, access.Revoke, access.Everything()) == nil}
	if before := e.lease.Cancelled; before != nil {
		asked.At, asked.All = before.At, asked.All || before.All
	}
	l := *e.lease
	l.Cancelled = asked
	return b.become(e, &l, Cancelled, c.By, c.Why, now)
}

// cancelText says why a lease ends that was cancelled.
const cancelText = "it was cancelled"

// afterColon returns text with more behind a colon, if there is more.
func afterColon(text, more string) string {
	if more == "" {
		return text
	}
	return text + ": " + more
}

// Launcher returns the key and the fence of the lease that a lease or a request is a part
// of. The holder of that lease starts the programs of its parts, and would start them
// again. Launcher returns k and fence themselves if it is a part of none that stands.
func (b *Book) Launcher(k Key, fence uint64) (Key, uint64) {
	above := uint64(0)
	if e := b.standing(k, fence); e != nil {
		above = e.lease.launcher()
	} else if w := b.waiting.get(k); w != nil {
		if parent, err := b.Parent(w.request); err == nil && parent != nil && !parent.Pool {
			above = parent.Fence
		}
	}
	for above != 0 { // a parent has a smaller fence than its child
		e := b.grants.get(above)
		if e == nil {
			break
		}
		k, fence, above = e.key, e.lease.Fence, e.lease.launcher()
	}
	return k, fence
}

// launcher returns the fence of the lease whose holder starts the programs of this one;
// zero if that is none: those of a pool start by themselves.
func (l *Lease) launcher() uint64 {
	if l.From != 0 {
		return 0
	}
	return l.ParentFence
}
