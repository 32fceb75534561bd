package lease

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
)

// A launcher holds a slot and 6 MiB. Its programs hold children of that.
func TestChildren(t *testing.T) {
	ann := Holder{User: "ann", UID: 1}
	for _, c := range []struct {
		name      string
		child     Request
		change    func(*Book)
		split     bool    // the parent can give it the memory
		available gpu.MiB // afterwards, of 10
		want      error
		says      string
	}{
		{name: "for nothing", child: Request{Memory: 0}, split: true, available: 4},
		{name: "what its parent has", child: Request{Memory: 6}, split: true, available: 4},
		{name: "a part of it", child: Request{Memory: 2}, split: true, available: 4},
		{name: "more than its parent has", child: Request{Memory: 4 + 3}, available: 4, want: ErrOverSold},
		{name: "beside its parent", child: Request{Memory: 4}, change: func(b *Book) { b.Observe(only(b, "run"), dev(0), 3) }, available: 0},
		{name: "on a device that is full", child: Request{Memory: 6}, change: func(b *Book) { b.ObserveForeign(dev(0), 9) }, split: true, available: -5},
		{name: "of another user", child: Request{Holder: Holder{User: "bob", UID: 2}}, available: 4, want: ErrParent},
		{name: "of a lease that is parked", change: func(b *Book) { apply(t, b, Park{Key: only(b, "run"), By: actor(ann)}, noon) }, available: 10, want: ErrParent, says: "it is parked"},
		{name: "of a lease that is cancelled", change: func(b *Book) {
			apply(t, b, Cancel{Key: only(b, "run"), By: actor(ann), Why: "enough"}, noon)
		}, available: 4, want: ErrParent, says: "enough"},
		{name: "of nobody", child: Request{Parent: "gone"}, available: 4, want: ErrParent, says: "no lease with that id"},
		{name: "with a parent that cannot be printed", child: Request{Parent: "a\nb"}, available: 4, want: errFields},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBook(t, Capacity{Total: 10, Usable: 1})
			r := Request{ID: "run", Holder: ann, Binding: ByName, Memory: 6, Slots: 1}
			apply(t, b, Grant{Lease: r.Lease(dev(0))}, noon)
			if c.change != nil {
				c.change(b)
			}
			child := c.child
			child.ID, child.Binding = "worker", ByName
			if child.Parent == "" {
				child.Parent = "run"
			}
			if child.Holder.User == "" {
				child.Holder = ann
			}
			g := Grant{Lease: child.Lease(dev(0))}
			if g.Split = c.want == nil && b.CanSplit(only(b, "run"), child.Memory); g.Split != c.split {
				t.Fatalf("the parent can give it the memory: %v", g.Split)
			}
			if g.Split {
				apply(t, b, Split{Key: only(b, "run"), Memory: child.Memory, By: actor(ann)}, noon)
			}
			_, err := b.Apply(g, noon)
			if !errors.Is(err, c.want) && !(c.want == errFields && errors.As(err, &FieldErrors{})) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			if err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q does not say %q", err, c.says)
			}
			if sum, _ := b.Sum(dev(0)); sum.Available() != c.available {
				t.Errorf("%s are available, want %s", sum.Available(), c.available)
			}
		})
	}
}

// A child outlives its parent, also in the journal.
func TestChildOutlivesItsParent(t *testing.T) {
	ann := Holder{User: "ann", UID: 1}
	b := newBook(t, Capacity{Total: 10, Usable: 1})
	parent, child := Request{ID: "run", Holder: ann, Binding: ByName, Slots: 1}, Request{ID: "worker", Parent: "run", Holder: ann, Binding: ByName}
	apply(t, b, Grant{Lease: parent.Lease(dev(0))}, noon)
	apply(t, b, Grant{Lease: child.Lease(dev(0)), Split: true}, noon)
	apply(t, b, Release{Key: only(b, "run"), By: actor(ann)}, noon)
	again := New()
	text := b.Dump()
	replayText(t, again, text)
	if again.Lease(only(again, "worker")) == nil || again.Lease(only(again, "worker")).Parent != "run" {
		t.Errorf("the journal has\n%s", text)
	}
}

// What a lease gets back before others, because berth has shrunk it, and what it gives to a
// child are together what it asked for.
func TestSplitOfAShrunkLease(t *testing.T) {
	b := newBook(t, Capacity{Total: 100, Usable: 1})
	ann := Holder{User: "ann", UID: 1}
	r := Request{ID: "run", Holder: ann, Binding: ByName, Memory: 100, Slots: 1}
	apply(t, b, Grant{Lease: r.Lease(dev(0))}, noon)
	apply(t, b, Resize{Key: only(b, "run"), Memory: 20, By: access.Daemon(), Shrinks: true}, noon)
	apply(t, b, Split{Key: only(b, "run"), Memory: 10, By: actor(ann)}, noon)
	if l := b.Lease(only(b, "run")); l.Asked != 90 || l.Parts[0].Memory != 10 {
		t.Errorf("it has %v, and gets back %v", l.Parts[0].Memory, l.Asked)
	}
	apply(t, b, Resize{Key: only(b, "run"), Memory: 15, By: actor(ann)}, noon)
	if l := b.Lease(only(b, "run")); l.Asked != 0 {
		t.Errorf("after its owner has chosen its size, it gets back %v", l.Asked)
	}
}

// A child without memory takes nothing that somebody waits for, so it may outlast its parent.
func TestChildWithoutMemoryHasNoEnd(t *testing.T) {
	b := newBook(t, Capacity{Total: 10, Usable: 1})
	ann := Holder{User: "ann", UID: 1}
	parent := Request{ID: "run", Holder: ann, Binding: ByName, Memory: 4, Slots: 1, TimeLimit: time.Hour}
	apply(t, b, Grant{Lease: parent.Lease(dev(0))}, noon)
	for memory, want := range map[gpu.MiB]time.Duration{0: 0, 2: time.Hour} {
		child := Request{ID: "worker " + memory.String(), Parent: "run", Holder: ann, Binding: ByName, Memory: memory}
		if memory > 0 {
			apply(t, b, Split{Key: only(b, "run"), Memory: memory, By: actor(ann)}, noon)
		}
		if l := apply(t, b, Grant{Lease: child.Lease(dev(0)), Split: true}, noon).After; l.TimeLimit != want {
			t.Errorf("with %v its time limit is %v, want %v", memory, l.TimeLimit, want)
		}
	}
}
