package lease

import (
	"errors"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/lease/stored"
)

// grantImplied makes a lease that nobody said the end of.
func grantImplied(t *testing.T, b *Book, id string) *Lease {
	t.Helper()
	r := Request{
		ID: id, Holder: Holder{User: "ann", UID: 1, Name: "curl", PID: 7, Start: 9, Boot: "b"},
		Binding: ByProcess, Implied: true, Memory: 4, Terms: Terms{EnforcedBy: "watchdog"},
	}
	e, err := b.Apply(Grant{Lease: r.Lease(dev(0))}, noon)
	if err != nil {
		t.Fatal(err)
	}
	return e.After
}

func TestImpliedLeaseSettlesAfterItsGrace(t *testing.T) {
	b := newBook(t, Capacity{Total: 10})
	granted := grantImplied(t, b, "app")
	if next, any := b.Next(); !any || !next.Equal(noon.Add(Grace)) {
		t.Fatalf("something is due at %v, want %v", next, noon.Add(Grace))
	}
	due := b.Due(noon.Add(Grace))
	if len(due) != 1 || due[0] != (Settle{Key: only(b, "app")}) {
		t.Fatalf("due is %v", due)
	}
	e, err := b.Apply(due[0], noon.Add(Grace))
	if err != nil {
		t.Fatal(err)
	}
	if e.After.Implied || e.After.Binding != ByProcess || e.After.Fence != granted.Fence {
		t.Errorf("it is %+v", e.After)
	}
	if _, any := b.Next(); any {
		t.Error("something is still due")
	}
	if r := EntryOf(&e); r.Kind != stored.Bind || r.Version != 2 {
		t.Errorf("an older berth does not understand the record: %+v", r)
	}
	for _, c := range []Change{Settle{Key: only(b, "app")}, Detach{Key: only(b, "app")}, Keep{Key: only(b, "app")}} {
		if _, err := b.Apply(c, noon); !errors.Is(err, ErrState) {
			t.Errorf("%T of a settled lease: %v", c, err)
		}
	}
}

func TestDetachedLeaseExpiresUnlessItIsKept(t *testing.T) {
	b := newBook(t, Capacity{Total: 10})
	granted := grantImplied(t, b, "script")
	exit := noon.Add(time.Second)
	e, err := b.Apply(Detach{Key: only(b, "script"), Fence: granted.Fence}, exit)
	if err != nil {
		t.Fatal(err)
	}
	if l := e.After; l.Binding != ByTTL || !l.Expires.Equal(exit.Add(DetachedTTL)) || l.Fence != granted.Fence ||
		l.EnforcedBy != "none" || l.Note == "" || e.Why == "" {
		t.Errorf("it is %+v", l)
	}
	late := exit.Add(DetachedTTL + time.Hour) // the daemon was away
	if e, err = b.Apply(Keep{Key: only(b, "script")}, late); err != nil || !e.After.Expires.Equal(late.Add(DetachedTTL)) {
		t.Errorf("kept: %+v, %v", e.After, err)
	}
	if due := b.Due(late.Add(DetachedTTL)); len(due) != 1 || due[0] != (Expire{only(b, "script")}) {
		t.Errorf("due is %v", due)
	}
}

// Whoever hands an implied lease to a process has said what ends it.
func TestBindSettles(t *testing.T) {
	b := newBook(t, Capacity{Total: 10})
	granted := grantImplied(t, b, "app")
	e, err := b.Apply(Bind{Key: only(b, "app"), By: actor(granted.Holder), PID: 8, Start: 10, Boot: "b"}, noon)
	if err != nil || e.After.Implied {
		t.Errorf("it is %+v, %v", e.After, err)
	}
}
