package lease

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
)

// ada holds the pools of the tests.
var ada = Holder{User: "ada", UID: 1001}

// pool grants a pool on the first device.
func newPool(t *testing.T, b *Book, id string, size gpu.MiB) *Lease {
	t.Helper()
	return grant(t, b, &Request{ID: id, Holder: ada, Memory: size, Binding: ByName, Terms: Terms{Pool: true}}, dev(0))
}

// take grants a child of a pool.
func take(b *Book, id string, pool *Lease, memory gpu.MiB) error {
	r := &Request{ID: id, Parent: pool.ID, Holder: ada, Memory: memory, Binding: ByName}
	l := r.Lease(dev(0))
	l.From = pool.Fence
	_, err := b.Apply(Grant{Lease: l}, noon)
	return err
}

// state is what a book says about the first device, the user and a pool.
func state(b *Book, pool string) string {
	sum, _ := b.Sum(dev(0))
	use, _ := b.Pool(Key{Owner: ada.Owner(), ID: pool})
	return fmt.Sprintf("device %d of %d, ada %d, pool %d of %d by %d", sum.Leased+sum.Overuse, sum.Ceiling(), b.UserCount(ada.Owner()).Memory, use.Taken, use.Size, use.Leases)
}

// Children take from their pool and give back, and the device and the user have the size
// of the pool in use all the time, also after a replay and a compaction at every step.
func TestPool(t *testing.T) {
	b := newBook(t, Capacity{Total: 100, MaxPipelines: 1})
	var journal []byte
	do := func(c Change, want error) {
		t.Helper()
		e, err := b.Apply(c, noon)
		if !errors.Is(err, want) {
			t.Fatalf("%+v: %v, want %v", c, err, want)
		}
		if err == nil {
			r := EntryOf(&e)
			journal = append(AppendEntry(journal, &r), '\n')
		}
	}
	expect := func(want string) {
		t.Helper()
		for name, text := range map[string]string{"": "", "replayed": string(journal), "compacted": b.Dump()} {
			book := b
			if name != "" {
				book = newBook(t, Capacity{Total: 100, MaxPipelines: 1})
				replayText(t, book, text)
			}
			if got := state(book, "pool"); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
	}
	child := func(id string, from uint64, memory gpu.MiB) Grant {
		l := (&Request{ID: id, Parent: "pool", Holder: ada, Memory: memory, Binding: ByName}).Lease(dev(0))
		l.From = from
		return Grant{Lease: l}
	}
	whole := (&Request{ID: "pool", Holder: ada, Memory: 80, Binding: ByName, Terms: Terms{Pool: true}}).Lease(dev(0))
	key := whole.Key()
	by := access.Daemon()
	do(Grant{Lease: whole}, nil)
	expect("device 80 of 100, ada 80, pool 0 of 80 by 0")
	do(child("a", 1, 50), nil)
	do(child("b", 1, 31), ErrPoolFull)
	do(child("b", 1, 30), nil)
	do(child("c", 1, 0), nil)
	expect("device 80 of 100, ada 80, pool 80 of 80 by 3")
	do(child("d", 1, 1), ErrPoolFull)
	do(child("d", 7, 1), ErrParent)
	do(child("d", 0, 1), ErrParent)
	do(Resize{Key: key, Memory: 79, By: by}, ErrPoolInUse)
	do(Resize{Key: Key{Owner: ada.Owner(), ID: "a"}, Memory: 40, By: by}, ErrState)
	do(Split{Key: key, Memory: 1, By: by}, ErrState)
	do(Park{Key: key, By: by}, ErrUnparkable)
	do(Park{Key: Key{Owner: ada.Owner(), ID: "a"}, By: by}, ErrUnparkable)
	do(Resize{Key: key, Memory: 101, By: by}, ErrOverSold)
	do(Resize{Key: key, Memory: 100, By: by}, nil)
	expect("device 100 of 100, ada 100, pool 80 of 100 by 3")
	do(Release{Key: Key{Owner: ada.Owner(), ID: "a"}, By: by}, nil)
	expect("device 100 of 100, ada 100, pool 30 of 100 by 2")
	do(Cancel{Key: Key{Owner: ada.Owner(), ID: "b"}, By: by}, nil) // it has an end now
	expect("device 100 of 100, ada 100, pool 30 of 100 by 2")
	do(Resize{Key: key, Memory: 30, By: by}, nil)
	expect("device 30 of 100, ada 30, pool 30 of 30 by 2")
	do(Resize{Key: key, Memory: 60, By: by}, nil)
	do(Release{Key: key, By: by}, nil) // its children hold what they have
	expect("device 30 of 100, ada 30, pool 0 of 0 by 0")

	// A later pool with the same id has none of them.
	again := (&Request{ID: "pool", Holder: ada, Memory: 70, Binding: ByName, Terms: Terms{Pool: true}}).Lease(dev(0))
	do(Grant{Lease: again}, nil)
	do(child("e", again.Fence, 20), nil)
	expect("device 100 of 100, ada 100, pool 20 of 70 by 1")
	do(Release{Key: Key{Owner: ada.Owner(), ID: "b"}, By: by}, nil)
	expect("device 70 of 100, ada 70, pool 20 of 70 by 1")
	do(Release{Key: Key{Owner: ada.Owner(), ID: "c"}, By: by}, nil) // the last of the first pool
	expect("device 70 of 100, ada 70, pool 20 of 70 by 1")
}

// What the own processes of a pool use is not left for its children, and what they use
// beyond it counts on the device.
func TestPoolThatIsUsedItself(t *testing.T) {
	b := newBook(t, Capacity{Total: 100, MaxPipelines: 1})
	pool := newPool(t, b, "pool", 50)
	b.Observe(pool.Key(), dev(0), 20)
	if err := take(b, "a", pool, 31); !errors.Is(err, ErrPoolFull) {
		t.Errorf("31 of 30: %v", err)
	}
	if err := take(b, "a", pool, 30); err != nil {
		t.Error(err)
	}
	for measured, want := range map[gpu.MiB]gpu.MiB{20: 50, 25: 45, 60: 10} {
		b.Observe(pool.Key(), dev(0), measured)
		if sum, _ := b.Sum(dev(0)); sum.Available() != want {
			t.Errorf("with %s in use, %s are available, want %s", measured, sum.Available(), want)
		}
	}
	b.Observe(Key{Owner: ada.Owner(), ID: "a"}, dev(0), 35)
	b.Observe(pool.Key(), dev(0), 0)
	if sum, _ := b.Sum(dev(0)); sum.Available() != 45 {
		t.Errorf("with a child that uses 5 too much, %s are available", sum.Available())
	}
	held := b.Holdings(dev(0))
	if parts := []gpu.MiB{held[0].Part.Memory, held[1].Part.Memory}; !slices.Equal(parts, []gpu.MiB{30, 20}) {
		t.Errorf("the device lists %v", parts)
	}
}

func TestPoolsThatAreRefused(t *testing.T) {
	b := newBook(t, Capacity{Total: 100, MaxPipelines: 4, Usable: 4}, Capacity{Total: 100, MaxPipelines: 4, Usable: 4})
	for name, test := range map[string]struct {
		change func(*Request)
		field  string
	}{
		"over several devices": {func(r *Request) { r.GPUs = 2 }, "gpus"},
		"with a device alone":  {func(r *Request) { r.Exclusive, r.Slots = true, 1 }, "exclusive"},
		"without memory":       {func(r *Request) { r.Memory, r.Slots = 0, 1 }, "memory_mb"},
		"with a scope":         {func(r *Request) { r.Scope = []string{"embedder.service"} }, "scope"},
		"that may be parked":   {func(r *Request) { r.Parkable = true }, "parkable"},
		"in another lease":     {func(r *Request) { r.Parent = "run" }, "pool"},
		"on parts":             {func(r *Request) { r.Exact = []Part{{GPU: dev(0), Memory: 1}} }, "pool"},
	} {
		r := Request{ID: "pool", Holder: ada, Memory: 50, GPUs: 1, Binding: ByName, Requested: noon, Deadline: noon, Terms: Terms{Pool: true}}
		test.change(&r)
		var fields FieldErrors
		if err := r.Validate(); !errors.As(err, &fields) || fields[0].Field != test.field {
			t.Errorf("a request %s: %v", name, err)
		}
		if r.Exact != nil {
			continue
		}
		devices := []string{dev(0), dev(1)}[:r.GPUs]
		if _, err := b.Apply(Grant{Lease: r.Lease(devices...)}, noon); !errors.As(err, &fields) || fields[0].Field != test.field {
			t.Errorf("a grant %s: %v", name, err)
		}
	}
}

// Histories of pools and their children alone, with kills: what was written down makes the
// same book, whole or compacted, wherever it ends.
func TestPoolsSurviveAnyEnd(t *testing.T) {
	check(t, func(h *history) {
		drawn := 0
		for range 40 {
			switch h.draw("pools", 0, 6) {
			case 0:
				r := h.drawRequest()
				r.Pool, r.Exclusive, r.Parkable, r.Scope, r.GPUs, r.Memory = true, false, false, nil, 1, gpu.MiB(h.draw("size", 1, 9))
				h.grant(r, false)
			case 1, 2, 3:
				h.child()
			case 4:
				h.end()
			case 5:
				h.resize()
			case 6:
				h.observe(dev(h.draw("device", 0, toyDevices-1)))
			}
			if err := h.book.Check(); err != nil {
				h.Fatal(err)
			}
			for i := range toyDevices {
				if s, _ := h.book.Sum(dev(i)); s.Available() != h.toy.available(dev(i)) {
					h.Fatalf("%s: the book has %s, the toy %s", dev(i), s.Available(), h.toy.available(dev(i)))
				}
			}
		}
		for n := range h.journal {
			again := New()
			for _, line := range h.journal[:n+1] {
				if _, err := again.Read(line); err != nil {
					h.Fatal(err)
				}
			}
			compacted := New()
			replayText(h, compacted, again.Dump())
			clone := again.Clone()
			for _, b := range []*Book{again, compacted, clone} {
				if err := b.Check(); err != nil {
					h.Fatalf("after %d entries: %v", n+1, err)
				}
				for i := range toyDevices {
					one, _ := again.Sum(dev(i))
					if two, _ := b.Sum(dev(i)); one.Leased != two.Leased || one.Overuse != two.Overuse {
						h.Fatalf("after %d entries %s has %+v and %+v", n+1, dev(i), one, two)
					}
				}
			}
		}
		for _, l := range h.book.Leases() {
			if l.From != 0 {
				drawn++
			}
		}
		h.Logf("%d children at the end", drawn)
	})
}
