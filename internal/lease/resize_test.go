package lease

import (
	"errors"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

func TestResize(t *testing.T) {
	ann := Holder{User: "ann", UID: 1}
	for _, c := range []struct {
		name             string
		enforced         string
		measured, memory gpu.MiB
		available        gpu.MiB // afterwards
		want             error
	}{
		{name: "larger", memory: 6, available: 4},
		{name: "all there is", memory: 10},
		{name: "more than there is", memory: 11, available: 6, want: ErrOverSold},
		{name: "smaller", memory: 1, available: 9},
		{name: "the same", memory: 4, available: 6},
		{name: "smaller than its use", measured: 3, memory: 1, available: 7},
		{name: "larger, and its use counts already", measured: 8, memory: 8, available: 2},
		{name: "beyond its use", measured: 8, memory: 11, available: 2, want: ErrOverSold},
		{name: "nothing", memory: 0, available: 6, want: errFields},
		{name: "below nothing", memory: -1, available: 6, want: errFields},
		{name: "watched", enforced: "watchdog", memory: 6, available: 4},
		{name: "started with caps", enforced: "framework", memory: 6, available: 4},
		{name: "started with caps, the same", enforced: "framework", memory: 4, available: 6},
		{name: "under MPS", enforced: "mps", memory: 2, available: 6, want: ErrEnforced},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBook(t, Capacity{Total: 10})
			r := Request{ID: "a", Holder: ann, Binding: ByName, Memory: 4, Terms: Terms{EnforcedBy: c.enforced}}
			granted, err := b.Apply(Grant{Lease: r.Lease(dev(0))}, noon)
			if err != nil {
				t.Fatal(err)
			}
			b.Observe(only(b, "a"), dev(0), c.measured)
			e, err := b.Apply(Resize{Key: only(b, "a"), Fence: granted.After.Fence, Memory: c.memory, By: actor(ann)}, noon)
			if !errors.Is(err, c.want) && !(c.want == errFields && errors.As(err, &FieldErrors{})) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			if err == nil && (e.After.Parts[0].Memory != c.memory || e.Before.Parts[0].Memory != 4 || e.After.Fence != e.Before.Fence) {
				t.Errorf("%+v became %+v", e.Before, e.After)
			}
			if err == nil && e.Takes() != (c.memory > 4) || !granted.Takes() {
				t.Errorf("it takes something of a device: %v, and its grant: %v", e.Takes(), granted.Takes())
			}
			if err == nil && (e.After.Note == keepsLimit) != (c.enforced == "framework" && c.memory != 4) {
				t.Errorf("its note is %q", e.After.Note)
			}
			if sum, _ := b.Sum(dev(0)); sum.Available() != c.available {
				t.Errorf("%s are available, want %s", sum.Available(), c.available)
			}
		})
	}
}

// Only a size that is large enough is what a request to grow was for.
func TestGrowth(t *testing.T) {
	for size, grants := range map[gpu.MiB]bool{49: false, 50: true, 51: true} {
		b := newBook(t, roomy)
		l := grant(t, b, &Request{ID: "a", Holder: alice(), Memory: 40, Binding: ByName}, dev(0))
		r := l.Growing(50)
		r.By, r.Requested, r.Deadline = actor(alice()), noon, noon.Add(time.Hour)
		apply(t, b, Ask{&r}, noon)
		if e := apply(t, b, Resize{Key: l.Key(), Memory: size, By: actor(alice())}, noon); e.Request == nil || e.Grants() != grants {
			t.Errorf("%v: %+v", size, e)
		}
	}
}

func TestResizeIsForTheOwner(t *testing.T) {
	b := newBook(t, Capacity{Total: 10})
	r := Request{ID: "a", Holder: Holder{User: "ann", UID: 1}, Binding: ByName, Memory: 4}
	if _, err := b.Apply(Grant{Lease: r.Lease(dev(0))}, noon); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Apply(Resize{Key: only(b, "a"), Memory: 5, By: actor(Holder{User: "bob", UID: 2})}, noon); !errors.Is(err, ErrNotYours) {
		t.Errorf("somebody else resized it: %v", err)
	}
	if _, err := b.Apply(Resize{Key: only(b, "a"), Fence: 9, Memory: 5, By: actor(r.Holder)}, noon); !errors.Is(err, ErrNoFence) {
		t.Errorf("a fence that was never given: %v", err)
	}
}
