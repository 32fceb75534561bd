package lease

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
)

// A lease that was cancelled is due at once and again each minute until it is revoked,
// also while it is parked, and also for a daemon that has only the journal.
func TestCancelIsDueUntilRevoked(t *testing.T) {
	for name, parked := range map[string]bool{"active": false, "parked": true} {
		t.Run(name, func(t *testing.T) {
			b := newBook(t, roomy)
			l := grant(t, b, &Request{ID: "job", Holder: alice(), Memory: 40, Binding: ByTTL, TTL: time.Minute}, dev(0))
			k := l.Key()
			if parked {
				apply(t, b, Park{Key: k, By: access.Daemon()}, noon)
			}
			effect := apply(t, b, Cancel{Key: k, By: actor(alice()), Why: "enough"}, noon.Add(time.Second))
			if !effect.Durable() || effect.Takes() {
				t.Errorf("it has to be in the journal, also on a full disk: %+v", effect)
			}
			again := newBook(t, roomy)
			replayText(t, again, b.Dump())
			for which, book := range map[string]*Book{"this": b, "the next": again} {
				at := noon.Add(time.Second)
				for range 3 {
					due := book.Due(at)
					if len(due) != 1 || due[0] != (Overrun{k, l.Fence}) {
						t.Fatalf("%s daemon, at %s: %v", which, at, due)
					}
					if over := apply(t, book, due[0], at); over.Kind != Overran || over.Durable() {
						t.Errorf("%+v", over)
					}
					if early := book.Due(at.Add(overrunAgain - 1)); len(early) != 0 {
						t.Errorf("%s daemon: %v is due again too early", which, early)
					}
					at = at.Add(overrunAgain)
				}
				if c := book.Lease(k).Cancelled; c == nil || c.All || c.By.UID != alice().UID || c.Why != "enough" || !c.At.Equal(noon.Add(time.Second)) {
					t.Errorf("%s daemon: %+v", which, c)
				}
			}
		})
	}
}

// Operators reach every process, and nobody takes that back.
func TestWhomACancelReaches(t *testing.T) {
	b := newBook(t, roomy)
	k := grant(t, b, &Request{ID: "job", Holder: alice(), Memory: 40, Binding: ByName}, dev(0)).Key()
	operator := access.Actor{User: "op", UID: 9, Door: access.Socket, Role: access.Operator}
	for _, step := range []struct {
		by  access.Actor
		all bool
	}{{actor(alice()), false}, {operator, true}, {actor(alice()), true}} {
		apply(t, b, Cancel{Key: k, By: step.by}, noon)
		if c := b.Lease(k).Cancelled; c.All != step.all || c.By.User != step.by.User {
			t.Errorf("after %s: %+v", step.by.User, c)
		}
	}
	bob := actor(Holder{User: "bob", UID: 2})
	if _, err := b.Apply(Cancel{Key: k, By: bob}, noon); !errors.Is(err, ErrNotYours) {
		t.Errorf("bob: %v", err)
	}
}

func TestCancelRefuses(t *testing.T) {
	b := newBook(t, roomy)
	pod := grant(t, b, &Request{ID: "pod", Holder: alice(), Memory: 40, Binding: ByName, Terms: Terms{Scope: []string{"pod1"}}}, dev(0)).Key()
	if _, err := b.Apply(Cancel{Key: pod, By: access.Daemon()}, noon); !errors.Is(err, ErrScoped) {
		t.Errorf("with a scope: %v", err)
	}
	if b.Lease(pod).Cancelled != nil {
		t.Error("a refusal changed the lease")
	}
}

// The lease of a worker means the runner that started it, also while it waits.
func TestLauncher(t *testing.T) {
	b := newBook(t, roomy)
	slot := grant(t, b, &Request{ID: "slot", Holder: alice(), Slots: 1, Binding: ByName}, dev(0))
	worker := grant(t, b, &Request{ID: "worker", Parent: "slot", Holder: alice(), Memory: 4, Binding: ByName}, dev(0))
	apply(t, b, Ask{&Request{ID: "next", Parent: "slot", Holder: alice(), By: actor(alice()), GPUs: 1, Memory: 4, Binding: ByName, Requested: noon, Deadline: noon.Add(time.Minute)}}, noon)
	for id, want := range map[string]Key{"slot": slot.Key(), "worker": slot.Key(), "next": slot.Key(), "nothing": {Owner: alice().Owner(), ID: "nothing"}} {
		if got, _ := b.Launcher(Key{Owner: alice().Owner(), ID: id}, 0); got != want {
			t.Errorf("%s: %v", id, got)
		}
	}
	apply(t, b, Release{Key: slot.Key(), By: access.Daemon()}, noon)
	if got, _ := b.Launcher(worker.Key(), 0); got != worker.Key() {
		t.Errorf("without its parent: %v", got)
	}
	other := grant(t, b, &Request{ID: "slot", Holder: alice(), Slots: 1, Binding: ByName}, dev(0))
	if got, _ := b.Launcher(worker.Key(), worker.Fence); got != worker.Key() {
		t.Errorf("beside a later lease with the id of its parent: %v", got)
	}
	if _, err := b.Apply(Park{Key: other.Key(), By: access.Daemon()}, noon); err != nil {
		t.Errorf("the later lease has no children, and is not parked: %v", err)
	}
	again := newBook(t, roomy)
	replayText(t, again, b.Dump())
	if got, _ := again.Launcher(worker.Key(), 0); got != worker.Key() || again.Lease(worker.Key()).ParentFence != slot.Fence {
		t.Errorf("after a restart: %v", got)
	}
}

// The program of a lease from a pool is none of the pool's, whose holder did not start it.
func TestLauncherOfALeaseFromAPool(t *testing.T) {
	b := newBook(t, roomy)
	pool := grant(t, b, &Request{ID: "pool", Holder: alice(), Memory: 40, Binding: ByName, Terms: Terms{Pool: true}}, dev(0))
	l := (&Request{ID: "a", Parent: "pool", Holder: alice(), Memory: 4, Binding: ByName}).Lease(dev(0))
	l.From = pool.Fence
	apply(t, b, Grant{Lease: l}, noon)
	if got, fence := b.Launcher(l.Key(), 0); got != l.Key() || fence != 0 {
		t.Errorf("%v, %d", got, fence)
	}
}

// The holder and operators read who cancelled it and why; others read that it was.
func TestCancelIsTold(t *testing.T) {
	b := newBook(t, roomy)
	k := grant(t, b, &Request{ID: "job", Holder: alice(), Memory: 40, Binding: ByName}, dev(0)).Key()
	tell := func(c Change) gpu.Event {
		e := apply(t, b, c, noon)
		notice, _ := NoticeOf(&e, func(text []byte, _ []Part) []byte { return text })
		return notice.Whole()
	}
	begun := tell(Cancel{Key: k, By: actor(alice()), Why: "secret"})
	ended := tell(Revoke{Key: k, By: access.Daemon(), Why: b.Lease(k).OverrunText()})
	for _, e := range []gpu.Event{begun, ended} {
		if e.By.User != "alice" || !strings.HasSuffix(e.Text, ": secret") || e.Public == "" || strings.Contains(e.Public, "secret") || e.Severity != gpu.Note {
			t.Errorf("%+v", e)
		}
	}
	if begun.Code != gpu.EventEnding || ended.Code != gpu.EventRevoked {
		t.Errorf("%s, then %s", begun.Code, ended.Code)
	}
}
