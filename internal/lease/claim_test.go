package lease

import (
	"errors"
	"testing"

	"github.com/berth-gpu/berth/internal/access"
)

// What is for a run is known by the run. A lease of its user with the same id is another
// one: it comes first where only the id is said, and a fence says which is meant.
func TestRunsAndIDs(t *testing.T) {
	b := newBook(t, roomy)
	mine := grant(t, b, &Request{ID: "train-17", Holder: alice(), Memory: 1, Binding: ByName}, dev(0))
	run := grant(t, b, &Request{ID: "train-17", Run: Run{Kind: OfJob, Number: 17}, Holder: alice(), Memory: 2, Binding: ByName}, dev(0))
	by, name := actor(alice()), Name{ID: "train-17"}
	for fence, want := range map[uint64]Key{0: mine.Key(), mine.Fence: mine.Key(), run.Fence: run.Key()} {
		if k, err := b.Seek(&by, access.Release, name, fence); err != nil || k != want {
			t.Errorf("with fence %d: %v, %v", fence, k, err)
		}
		root := access.Daemon()
		if k, err := b.Seek(&root, access.Release, Name{User: "alice", ID: "train-17"}, fence); err != nil || k != want {
			t.Errorf("named by an operator with fence %d: %v, %v", fence, k, err)
		}
	}
	again := newBook(t, roomy)
	replayText(t, again, b.Dump())
	if again.Lease(mine.Key()).Fence != mine.Fence || again.Lease(run.Key()).Fence != run.Fence {
		t.Error("after a restart the two are not told apart")
	}
	apply(t, b, Release{Key: mine.Key(), By: by}, noon)
	if k, err := b.Seek(&by, access.Release, name, 0); err != nil || k != run.Key() {
		t.Errorf("alone: %v, %v", k, err)
	}
	refused := (*RunError)(nil)
	if err := run.Key().Free(); !errors.As(err, &refused) || refused.Service() != "" {
		t.Errorf("the lease of a job is free: %v", err)
	}
	server := Key{Owner: alice().Owner(), ID: "a b-2", Run: Run{Kind: OfService, Number: 2}}
	if err := server.Free(); !errors.As(err, &refused) || refused.Service() != "a b" {
		t.Errorf("the lease of a service is free: %v", err)
	}
}

// A lease of an earlier berth is claimed once, by its fence, and is that of the run from
// then on, also after a restart.
func TestClaim(t *testing.T) {
	b := newBook(t, roomy)
	old := grant(t, b, &Request{ID: "train-17", Holder: alice(), Memory: 1, Binding: ByName}, dev(0))
	bobs := grant(t, b, &Request{ID: "train-17", Holder: bob(), Memory: 1, Binding: ByName}, dev(0))
	run := Key{Owner: alice().Owner(), ID: "train-17", Run: Run{Kind: OfJob, Number: 17}}
	for _, fence := range []uint64{0, bobs.Fence, bobs.Fence + 1} {
		if _, err := b.Apply(Claim{run, fence}, noon); !errors.Is(err, ErrUnknown) {
			t.Errorf("with fence %d: %v", fence, err)
		}
	}
	e := apply(t, b, Claim{run, old.Fence}, noon)
	if b.Lease(old.Key()) != nil || b.Lease(run) != e.After || b.Standing(old.Key(), old.Fence) != e.After {
		t.Errorf("it is found as %v and as %v", b.Lease(old.Key()), b.Lease(run))
	}
	if _, err := b.Apply(Claim{run, old.Fence}, noon); !errors.Is(err, ErrDuplicate) {
		t.Errorf("once more: %v", err)
	}
	again := newBook(t, roomy)
	replayText(t, again, b.Dump())
	if again.Lease(run) == nil {
		t.Error("a restart forgets it")
	}
	b.Revert(e)
	if b.Lease(run) != nil || b.Lease(old.Key()) != old || b.Lease(bobs.Key()) != bobs {
		t.Error("a claim that cannot be written down is not taken back")
	}
}

// An earlier berth could give a pool a scope. Its journal is read, without the scope.
func TestPoolsHaveNoScope(t *testing.T) {
	b := newBook(t, roomy)
	pool := grant(t, b, &Request{ID: "pool", Holder: alice(), Memory: 4, Binding: ByName, Terms: Terms{Pool: true}}, dev(0))
	if _, err := b.Apply(Rescope{Key: pool.Key(), Add: []string{"pod1"}, By: access.Daemon()}, noon); !errors.As(err, &FieldErrors{}) {
		t.Errorf("a pool gets a scope: %v", err)
	}
	for name, text := range map[string]string{
		"compacted": `{"v":6,"kind":"grant","id":"pool","fence":1,"lease":{"uid":1000,"binding":"named","parts":[{"gpu":"GPU-0","memory_mb":4}],"state":"active","scope":["pod1"],"pool":true}}`,
		"as it was": b.Dump() + `{"v":6,"kind":"scope","id":"pool","fence":1,"lease":{"uid":1000,"binding":"named","parts":[{"gpu":"GPU-0","memory_mb":4}],"state":"active","scope":["pod1"],"pool":true}}`,
	} {
		old := newBook(t, roomy)
		replayText(t, old, text)
		compacted := newBook(t, roomy)
		replayText(t, compacted, old.Dump())
		if l := compacted.Standing(pool.Key(), 1); l == nil || len(l.Scope) > 0 {
			t.Errorf("%s: the pool is %+v", name, l)
		}
	}
}

// A child is on the devices of its parent only while that stands: then they count once.
func TestDevicesOfChildrenCount(t *testing.T) {
	b := newBook(t, roomy)
	parent := grant(t, b, &Request{ID: "p", Holder: alice(), Slots: 1, Binding: ByName}, dev(0))
	grant(t, b, &Request{ID: "c", Parent: "p", Holder: alice(), Memory: 1, Binding: ByName}, dev(0))
	count := func() int { return b.UserCount(alice().Owner()).GPUs }
	if count() != 1 {
		t.Errorf("beside its parent, a child makes them %d", count())
	}
	e := apply(t, b, Release{Key: parent.Key(), By: access.Daemon()}, noon)
	if count() != 1 {
		t.Errorf("without its parent, a child makes them %d", count())
	}
	b.Revert(e)
	if count() != 1 {
		t.Errorf("when the end of its parent is taken back, they are %d", count())
	}
}
