package lease

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/text/words"
)

// A lease with a time limit ends that long after its grant, however often it is renewed.
// The book only says when: the caller first ends the processes of the lease, as for any
// lease that is revoked, and then applies Revoke.
//
//	granted ──▶ Warn ──▶ Overrun ──▶ Revoke
//	            a while before    at the end, and again until it is revoked
//
// A lease that was cancelled ends in the same way, without a Warn.
const (
	MinTime = time.Second
	MaxTime = 365 * 24 * time.Hour

	// overrunAgain is how long after an Overrun the next one is due, if the lease
	// still exists: a daemon that could not revoke it tries again.
	overrunAgain = time.Minute
)

// Ends returns when the time limit ends the lease; false if it has none, or if it is
// parked, because its time then stands still.
func (l *Lease) Ends() (time.Time, bool) {
	return l.Granted.Add(l.TimeLimit + l.Paused), l.TimeLimit > 0 && l.State != Parked
}

// Over reports whether the lease was cancelled or has reached its time limit: it ends as
// soon as its processes have.
func (l *Lease) Over(now time.Time) bool {
	ends, limited := l.Ends()
	return l.Cancelled != nil || limited && !now.Before(ends)
}

// Until returns when the lease ends, if nobody renews or releases it before;
// false if that is not known, or if nobody chose it.
func (l *Lease) Until() (time.Time, bool) {
	ends, limited := l.Ends()
	if l.Binding == ByTTL && l.State != Parked && (!limited || l.Expires.Before(ends)) {
		return l.Expires, true
	}
	return ends, limited && !l.Unchosen
}

// warnAhead returns how long before its end berth warns the holder of a lease with a time
// limit.
func warnAhead(limit time.Duration) time.Duration { return min(limit/10, 5*time.Minute) }

// Warn notes that the time limit of a lease is about to end it. See Due.
type Warn struct {
	Key
	Fence uint64
}

func (w Warn) apply(b *Book, now time.Time) (Effect, error) {
	e, err := b.limited("warn", w.Key, w.Fence)
	if err != nil {
		return Effect{}, err
	}
	e.warned = true
	b.setAlarm(e)
	return Effect{Kind: Warned, Time: now, Before: e.lease, After: e.lease, By: access.Daemon()}, nil
}

// Overrun notes that a lease has reached its time limit, or was cancelled, and is to be
// ended. It changes nothing durable: Revoke ends the lease. See Due.
type Overrun struct {
	Key
	Fence uint64
}

func (o Overrun) apply(b *Book, now time.Time) (Effect, error) {
	e, err := b.limited("end", o.Key, o.Fence)
	if err != nil {
		return Effect{}, err
	}
	if ends, _ := e.lease.Ends(); !e.lease.Over(now) {
		return Effect{}, fmt.Errorf("end %s: %w: its time limit is at %s", o.ID, ErrNotDue, ends.Format(time.RFC3339))
	}
	e.warned, e.overrun = true, now
	b.setAlarm(e)
	return Effect{Kind: Overran, Time: now, Before: e.lease, After: e.lease, By: access.Daemon()}, nil
}

// forget makes due again what an effect of a kind noted.
func (b *Book) forget(e *entry, kind Kind) {
	if kind == Warned {
		e.warned = false
	}
	e.overrun = time.Time{}
	b.setAlarm(e)
}

// limited returns a lease with a time limit, or one that was cancelled.
func (b *Book) limited(op string, k Key, fence uint64) (*entry, error) {
	e := b.leases.get(k)
	if e == nil || fence != e.lease.Fence || e.lease.TimeLimit <= 0 && e.lease.Cancelled == nil {
		return nil, fmt.Errorf("%s %s: %w with a time limit", op, k.ID, ErrUnknown)
	}
	return e, nil
}

func timeLimitProblem(limit time.Duration) string {
	if limit == 0 {
		return ""
	}
	return words.TimeProblem(limit, MinTime, MaxTime)
}

// OverrunText says why a lease ends when it was cancelled or has reached its time limit.
func (l *Lease) OverrunText() string {
	if c := l.Cancelled; c != nil {
		return afterColon(cancelText, c.Why)
	}
	return "its time limit of " + words.Duration(l.TimeLimit) + " is over"
}
