package lease

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/access"
)

// TestTimeStandsStillWhileParked: neither the ttl nor the time limit of a parked
// lease goes on, and its holder is warned again before the end.
func TestTimeStandsStillWhileParked(t *testing.T) {
	b := newBook(t, roomy)
	r := &Request{ID: "job", Holder: alice(), GPUs: 1, Memory: 40, Binding: ByTTL, TTL: 20 * time.Minute, TimeLimit: 10 * time.Minute, Requested: noon, Deadline: noon}
	l := grant(t, b, r, dev(0))
	k := l.Key()
	if next, _ := b.Next(); !next.Equal(noon.Add(9 * time.Minute)) {
		t.Errorf("its holder is warned at %s, want a tenth of its time before the end", next)
	}
	apply(t, b, Warn{k, l.Fence}, noon.Add(9*time.Minute))
	apply(t, b, Park{Key: k, By: access.Daemon()}, noon.Add(9*time.Minute))
	if next, any := b.Next(); any {
		t.Errorf("something is due at %s while it is parked", next)
	}
	if until, known := b.Lease(k).Until(); known {
		t.Errorf("it ends at %s while it is parked", until)
	}
	if _, err := b.Apply(Expire{k}, noon.Add(time.Hour)); !errors.Is(err, ErrNotDue) {
		t.Errorf("it expired while it was parked: %v", err)
	}
	if _, err := b.Apply(Renew{Key: k, By: actor(alice())}, noon.Add(time.Hour)); err != nil {
		t.Errorf("it could not be renewed while it was parked: %v", err)
	}
	apply(t, b, Resume{Key: k, By: access.Daemon()}, noon.Add(2*time.Hour))
	back := b.Lease(k)
	if ends, limited := back.Ends(); !limited || !ends.Equal(noon.Add(2*time.Hour+time.Minute)) || back.Paused != 111*time.Minute {
		t.Errorf("it ends at %s", ends)
	}
	if !back.Expires.Equal(noon.Add(2*time.Hour + 20*time.Minute)) { // the renewal counts from now on at most
		t.Errorf("it expires at %s", back.Expires)
	}
	due := b.Due(noon.Add(2 * time.Hour))
	if len(due) != 1 || due[0] != (Warn{k, l.Fence}) {
		t.Errorf("due: %v", due)
	}
}

// An earlier berth did not write since when a lease is parked: then it was away for no time.
func TestTimeAwayThatNobodyKnows(t *testing.T) {
	l := Lease{State: Parked, Binding: ByTTL, TTL: time.Minute, Expires: noon}
	if l.unpark(noon.Add(time.Hour)); l.Paused != 0 || !l.Expires.Equal(noon) || l.State != Active {
		t.Errorf("%+v", l)
	}
}

func TestUntil(t *testing.T) {
	for name, c := range map[string]struct {
		l    Lease
		want time.Time // zero: nobody knows
	}{
		"until it is renewed":          {Lease{Binding: ByTTL, Expires: noon.Add(time.Minute)}, noon.Add(time.Minute)},
		"renewed within its limit":     {Lease{Binding: ByTTL, Expires: noon.Add(time.Minute), TimeLimit: time.Hour}, noon.Add(time.Minute)},
		"renewed beyond its limit":     {Lease{Binding: ByTTL, Expires: noon.Add(2 * time.Hour), TimeLimit: time.Hour}, noon.Add(time.Hour)},
		"for ever":                     {Lease{Binding: ByName}, time.Time{}},
		"until a limit nobody has set": {Lease{Binding: ByName, TimeLimit: time.Hour, Unchosen: true}, time.Time{}},
	} {
		c.l.Granted, c.l.State = noon, Active
		if until, known := c.l.Until(); known != !c.want.IsZero() || known && !until.Equal(c.want) {
			t.Errorf("%s: %s, %v; want %s", name, until, known, c.want)
		}
	}
}

// A lease that had its device alone returns if nearly as much is left, and any other one only
// to all that it had.
func TestReturning(t *testing.T) {
	l := Lease{State: Parked, Parts: []Part{{dev(0), 96, 1}}}
	if r := l.Returning(); r.Memory != 96 || r.Least != 96 {
		t.Errorf("it returns to %v, or at least %v", r.Memory, r.Least)
	}
	l.Exclusive = true
	if r := l.Returning(); r.Memory != 96 || r.Least != 90 {
		t.Errorf("alone, it returns to %v, or at least %v", r.Memory, r.Least)
	}
	l = Lease{Parts: []Part{{dev(0), 1, 0}, {dev(1), 1, 0}}}
	if err := l.Unparkable(); !errors.Is(err, ErrUnparkable) || !strings.Contains(err.Error(), "on several devices") {
		t.Errorf("on two devices: %v", err)
	}
}

// TestRequestsForALease: they have the key of the lease, and there is one at a time.
func TestRequestsForALease(t *testing.T) {
	b := newBook(t, roomy)
	l := grant(t, b, &Request{ID: "job", Holder: alice(), GPUs: 1, Memory: 40, Binding: ByName}, dev(0))
	ask := func(r Request) error {
		r.By, r.Requested, r.Deadline = actor(alice()), noon, noon.Add(100*MaxWait) // such a request may wait for ever
		_, err := b.Apply(Ask{&r}, noon)
		return err
	}
	other := l.Growing(50)
	other.Into++
	urgent := l.Growing(50)
	urgent.Priority = First + 1
	for name, c := range map[string]struct {
		r    Request
		want error
	}{
		"return of an active lease":     {l.Returning(), ErrState},
		"of another fence":              {other, ErrStaleFence},
		"with a priority nobody has":    {urgent, errFields},
		"less than it has":              {l.Growing(30), errFields},
		"a new request of the same key": {Request{ID: "job", Holder: alice(), Memory: 1, GPUs: 1, Binding: ByName}, errFields}, // it waits too long
	} {
		if err := ask(c.r); !errors.Is(err, c.want) && !(c.want == errFields && errors.As(err, &FieldErrors{})) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if err := ask(l.Growing(50)); err != nil {
		t.Fatal(err)
	}
	if err := ask(l.Growing(60)); !errors.Is(err, ErrAsked) {
		t.Errorf("a second one: %v", err)
	}
	parked := apply(t, b, Park{Key: l.Key(), By: access.Daemon()}, noon)
	if parked.Request == nil || parked.Grants() || b.Request(l.Key()) != nil {
		t.Errorf("it grows while it is parked: %+v", parked)
	}
	if err := ask(b.Lease(l.Key()).Returning()); err != nil {
		t.Fatal(err)
	}
	back := apply(t, b, Resume{Key: l.Key(), By: access.Daemon()}, noon)
	if !back.Grants() || back.Request.For() != "resume" || b.Request(l.Key()) != nil {
		t.Errorf("it has returned: %+v", back)
	}
	b.Revert(back)
	if b.Request(l.Key()) == nil {
		t.Error("what was taken back does not wait again")
	}
	ended := apply(t, b, Revoke{Key: l.Key(), By: access.Daemon()}, noon)
	if ended.Grants() || ended.Request == nil || len(b.Waiting()) != 0 {
		t.Errorf("its lease has ended: %+v", ended)
	}
}

// TestScopesAllowWhatTheySay: berth parks and shrinks a lease with a scope only if it
// allows that, others never change its size, and only its owner ends it while it is parked.
func TestScopesAllowWhatTheySay(t *testing.T) {
	for _, allowed := range [][]string{nil, {MayTrim}, {MayShrink}, {MayPark}, {MayShrink, MayPark}} {
		b := newBook(t, roomy)
		r := &Request{ID: "claim", Holder: alice(), GPUs: 1, Memory: 40, Binding: ByName, Terms: Terms{Scope: []string{"pod" + strings.Repeat("a", 32)}, Optimize: allowed}}
		l := grant(t, b, r, dev(0))
		k := l.Key()
		operator := access.Actor{User: "olga", UID: 7, Role: access.Operator, Door: access.Socket}
		_, err := b.Apply(Resize{Key: k, Memory: 20, By: operator}, noon)
		if !errors.Is(err, ErrState) {
			t.Errorf("%v: an operator resizes it: %v", allowed, err)
		}
		_, err = b.Apply(Resize{Key: k, Memory: 20, By: access.Daemon(), Shrinks: true}, noon)
		if (err == nil) != slices.Contains(allowed, MayShrink) {
			t.Errorf("%v: berth shrinks it: %v", allowed, err)
		}
		_, err = b.Apply(Park{Key: k, By: access.Daemon()}, noon)
		if (err == nil) != slices.Contains(allowed, MayPark) {
			t.Errorf("%v: berth parks it: %v", allowed, err)
		}
		if _, err := b.Apply(Rescope{Key: k, Add: []string{"pod" + strings.Repeat("b", 32)}, By: operator}, noon); err != nil {
			t.Errorf("%v: a second pod cannot join it: %v", allowed, err)
		}
		if again := restored(new(EntryOf(&Effect{Kind: Granted, Time: noon, After: l}))); !slices.Equal(again.Optimize, allowed) {
			t.Errorf("%v: the journal has %v", allowed, again.Optimize)
		}
		if err != nil {
			continue
		}
		if _, err := b.Apply(Release{Key: k, By: operator}, noon); !errors.Is(err, ErrParked) {
			t.Errorf("an operator ends it while it is parked: %v", err)
		}
		if _, err := b.Apply(Release{Key: k, By: actor(alice())}, noon); err != nil {
			t.Errorf("its owner cannot end it while it is parked: %v", err)
		}
	}
}
