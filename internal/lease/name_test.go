package lease

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease/stored"
)

func bob() Holder { return Holder{User: "bob", UID: 1001, PID: 43, Start: 8, Boot: "b1"} }

// TestIDsArePerUser: what one user does under an id does not touch another who
// uses the same.
func TestIDsArePerUser(t *testing.T) {
	b := newBook(t, roomy)
	first := grant(t, b, &Request{ID: "train", Holder: alice(), Memory: 10, Binding: ByName}, dev(0))
	second := grant(t, b, &Request{ID: "train", Holder: bob(), Memory: 20, Binding: ByName}, dev(0))
	third := grant(t, b, &Request{ID: "train", Holder: Holder{User: "token:ci", UID: NoUID}, Memory: 30, Binding: ByName}, dev(0))
	asked := &Request{ID: "train", Holder: Holder{User: "token:lab", UID: NoUID}, GPUs: 1, Memory: 90, Binding: ByName, Requested: noon, Deadline: noon.Add(time.Hour)}
	apply(t, b, Ask{asked}, noon)
	for _, l := range []*Lease{first, second, third} {
		if err := refused(t, b, Grant{Lease: (&Request{ID: "train", Holder: l.Holder, Memory: 1, Binding: ByName}).Lease(dev(0))}, noon); !errors.Is(err, ErrDuplicate) {
			t.Errorf("%s again: %v", l.Holder.User, err)
		}
	}
	b.Observe(second.Key(), dev(0), 25)
	if sum, _ := b.Sum(dev(0)); sum.Available() != 100-10-25-30 {
		t.Errorf("%s are available", sum.Available())
	}
	apply(t, b, Release{Key: second.Key(), By: actor(bob())}, noon)
	if b.Lease(first.Key()) != first || b.Lease(second.Key()) != nil || b.Lease(third.Key()) != third || b.Request(asked.Key()) != asked {
		t.Error("the release touched another lease")
	}
	apply(t, b, Withdraw{Key: asked.Key(), By: access.Daemon()}, noon)
	apply(t, b, Release{Key: first.Key(), By: actor(alice())}, noon)
	if b.Lease(third.Key()) != third {
		t.Error("the release touched another lease")
	}
}

func TestSeek(t *testing.T) {
	b := newBook(t, roomy)
	token := Holder{User: "token:ci", UID: NoUID}
	for _, r := range []*Request{
		{ID: "ended", Holder: alice()}, {ID: "train", Holder: alice()}, {ID: "train", Holder: bob()}, {ID: "train", Holder: token},
		{ID: "solo", Holder: alice()}, {ID: "shared", Holder: Holder{User: "sam", UID: 7}}, {ID: "shared", Holder: Holder{User: "sam", UID: 8}},
		{ID: "old", Holder: Holder{User: "tcp", UID: NoUID}},
	} {
		r.Memory, r.Binding = 1, ByName
		grant(t, b, r, dev(0))
	}
	apply(t, b, Release{Key: Key{Owner: Owner{UID: 1000}, ID: "ended"}, By: actor(alice())}, noon)
	apply(t, b, Ask{&Request{ID: "waits", Holder: bob(), GPUs: 1, Memory: 1, Binding: ByName, Requested: noon, Deadline: noon.Add(time.Hour)}}, noon)
	const first, second, third = 2, 3, 4 // the fences of train

	carl, root := actor(Holder{User: "carl", UID: 1002}), access.Actor{User: "root", UID: 0, Door: access.Socket, Role: access.Admin}
	viewer := access.Actor{User: "unknown", UID: NoUID, Door: access.TCP, Role: access.Viewer}
	of := func(uid int, id string) Key { return Key{Owner: Owner{UID: uid}, ID: id} }
	byName := func(user, id string) Key { return Key{Owner: Owner{NoUID, user}, ID: id} }
	for _, c := range []struct {
		name  string
		by    access.Actor
		verb  access.Verb
		what  Name
		fence uint64
		want  Key
		err   error
	}{
		{"one's own", actor(alice()), access.Release, Name{ID: "train"}, 0, of(1000, "train"), nil},
		{"one's own by a token", access.Actor{User: "token:ci", UID: NoUID, Role: access.User}, access.Release, Name{ID: "train"}, 0, byName("token:ci", "train"), nil},
		{"one's own by name", actor(alice()), access.Release, Name{"alice", "train"}, 0, of(1000, "train"), nil},
		{"one's own by number", actor(alice()), access.Release, Name{"1000", "train"}, 0, of(1000, "train"), nil},
		{"one's own, whatever the fence", actor(alice()), access.Release, Name{ID: "train"}, second, of(1000, "train"), nil},
		{"what only somebody else has", carl, access.Release, Name{ID: "solo"}, 0, of(1002, "solo"), nil},
		{"what several others have", carl, access.Release, Name{ID: "train"}, 0, of(1002, "train"), nil},
		{"what another user has", carl, access.Release, Name{"alice", "train"}, 0, Key{}, ErrNotYours},
		{"what another user has not", carl, access.Release, Name{"alice", "none"}, 0, Key{}, ErrNotYours},
		{"look at the only one", carl, access.Look, Name{ID: "solo"}, 0, of(1000, "solo"), nil},
		{"look at the only one that waits", carl, access.Look, Name{ID: "waits"}, 0, of(1001, "waits"), nil},
		{"look at one of several", carl, access.Look, Name{"bob", "train"}, 0, of(1001, "train"), nil},
		{"look at several", viewer, access.Look, Name{ID: "train"}, 0, Key{}, ErrAmbiguous},
		{"the only one, for an administrator", root, access.Release, Name{ID: "solo"}, 0, of(1000, "solo"), nil},
		{"of the user of old journals", root, access.Release, Name{"tcp", "old"}, 0, byName("tcp", "old"), nil},
		{"several, for an administrator", root, access.Release, Name{ID: "train"}, 0, Key{}, ErrAmbiguous},
		{"several, and the fence says which", root, access.Release, Name{ID: "train"}, third, byName("token:ci", "train"), nil},
		{"several, and the fence of none", root, access.Release, Name{ID: "train"}, 1, Key{}, ErrStaleFence},
		{"one of several", root, access.Release, Name{"token:ci", "train"}, 0, byName("token:ci", "train"), nil},
		{"one of several by number", root, access.Release, Name{"1001", "train"}, 0, of(1001, "train"), nil},
		{"two users with one name", root, access.Release, Name{"sam", "shared"}, 0, Key{}, ErrAmbiguous},
		{"a user who has none", root, access.Release, Name{"carl", "train"}, 0, Key{}, ErrUnknown},
		{"a user who has none any more", root, access.Release, Name{"carl", "train"}, first, Key{}, ErrStaleFence},
		{"nobody's", root, access.Release, Name{ID: "none"}, 0, of(0, "none"), nil},
	} {
		got, err := b.Seek(&c.by, c.verb, c.what, c.fence)
		if !errors.Is(err, c.err) || err == nil && got != c.want {
			t.Errorf("%s: %+v, %v; want %+v, %v", c.name, got, err, c.want, c.err)
		}
	}
	refusal := (*access.Refusal)(nil)
	if _, err := b.Seek(&carl, access.Release, Name{"alice", "train"}, 0); !errors.As(err, &refusal) || refusal.Owner != "alice" {
		t.Errorf("what another user has, and the refusal names nobody: %v", err)
	}
}

// TestAmbiguousNames: each name that the refusal lists leads to one.
func TestAmbiguousNames(t *testing.T) {
	b := newBook(t, roomy)
	for _, h := range []Holder{bob(), alice(), {User: "sam", UID: 8}, {User: "sam", UID: 7}} {
		grant(t, b, &Request{ID: "train", Holder: h, Memory: 1, Binding: ByName}, dev(0))
	}
	root := access.Actor{User: "root", UID: 0, Door: access.Socket, Role: access.Admin}
	_, err := b.Seek(&root, access.Release, Name{ID: "train"}, 0)
	several := (*AmbiguousError)(nil)
	if !errors.As(err, &several) || !strings.HasSuffix(err.Error(), ": alice/train, bob/train, 7/train, 8/train") {
		t.Fatal(err)
	}
	var found []Key
	for _, n := range several.Names {
		k, err := b.Seek(&root, access.Release, n, 0)
		if err != nil || slices.Contains(found, k) || b.Lease(k) == nil {
			t.Errorf("%s: %+v, %v", n, k, err)
		}
		found = append(found, k)
	}
	own := &Request{ID: "train", Holder: Holder{User: "root", UID: 0}, GPUs: 1, Memory: 1, Binding: ByName}
	own.Requested, own.Deadline = noon, noon.Add(time.Hour)
	apply(t, b, Ask{own}, noon)
	for fence, want := range map[uint64]int{0: 0, 1: 1001} {
		if k, err := b.Seek(&root, access.Release, Name{ID: "train"}, fence); err != nil || k.UID != want {
			t.Errorf("while one of root's own waits, with fence %d: %+v, %v", fence, k, err)
		}
	}
	grant(t, b, own, dev(0))
	if k, err := b.Seek(&root, access.Release, Name{ID: "train"}, 0); err != nil || k.UID != 0 {
		t.Errorf("with one of root's own: %+v, %v", k, err)
	}
	if k, err := b.Seek(&root, access.Release, Name{ID: "train"}, 1); err != nil || k.UID != 1001 {
		t.Errorf("with the fence of bob's: %+v, %v", k, err)
	}
}

// TestOlderBerthsMeetNoIDTwice: the grant of an id that another user has is of a
// version that berths refuse to which ids are unique; all else is not.
func TestOlderBerthsMeetNoIDTwice(t *testing.T) {
	older := func(h *history, r *stored.Entry, standing map[string]uint64) {
		_, twice := standing[r.ID]
		if r.Version >= 5 || r.Lease != nil && r.Lease.TimeLimit != 0 && r.Version == 4 {
			return // an older berth refuses it anyway
		}
		if r.Kind == stored.Grant && twice != (r.Version == 4) || r.Kind != stored.Grant && r.Version > 3 {
			h.Fatalf("%s of %s has version %d while %v stand", r.Kind, r.ID, r.Version, standing)
		}
	}
	check(t, func(h *history) {
		h.run(60)
		standing, ids := map[uint64]string{}, map[string]uint64{}
		for _, line := range h.journal {
			r, err := stored.Decode(line)
			if err != nil {
				h.Fatal(err)
			}
			older(h, &r, ids)
			switch r.Kind {
			case stored.Grant:
				standing[r.Fence] = r.ID
			case stored.Release, stored.Expire, stored.Revoke:
				delete(standing, r.Fence)
			}
			clear(ids)
			for fence, id := range standing {
				ids[id] = fence
			}
		}
		clear(ids)
		for r := range EntriesOf(h.book.Leases()) {
			older(h, &r, ids)
			ids[r.ID] = r.Fence
		}
	})
}

// TestRecordVersion4 holds what version 4 added.
func TestRecordVersion4(t *testing.T) {
	b := newBook(t)
	replayText(t, b, version4)
	want := `{"v":1,"kind":"grant","time_ns":5,"id":"train","fence":1,"lease":{"uid":1,"user":"ada","binding":"named","granted_ns":5,"parts":[{"gpu":"GPU-1","slots":1}],"state":"parked"}}
{"v":4,"kind":"grant","time_ns":6,"id":"train","fence":2,"lease":{"uid":2,"user":"bob","binding":"ttl","ttl_ns":2000000000,"granted_ns":6,"expires_ns":2000000006,"parts":[{"gpu":"GPU-1","slots":1}],"state":"active"}}
{"v":1,"kind":"fence","fence":3}
`
	if got := b.Dump(); got != want {
		t.Errorf("read as\n%s\nwant\n%s", got, want)
	}
}

const version4 = `{"v":1,"kind":"grant","time_ns":5,"id":"train","fence":1,"lease":{"uid":1,"user":"ada","binding":"named","granted_ns":5,"parts":[{"gpu":"GPU-1","slots":1}],"state":"active"}}
{"v":4,"kind":"grant","time_ns":6,"id":"train","fence":2,"lease":{"uid":2,"user":"bob","binding":"ttl","ttl_ns":1000000000,"granted_ns":6,"expires_ns":1000000006,"parts":[{"gpu":"GPU-1","slots":1}],"state":"active"}}
{"v":4,"kind":"grant","time_ns":7,"id":"train","fence":3,"lease":{"uid":-1,"user":"token:ci","binding":"named","granted_ns":7,"parts":[{"gpu":"GPU-1","slots":1}],"state":"active"}}
{"v":1,"kind":"renew","time_ns":6,"id":"train","fence":2,"expires_ns":2000000006,"ttl_ns":2000000000}
{"v":1,"kind":"park","time_ns":7,"id":"train","fence":1}
{"v":1,"kind":"release","time_ns":8,"id":"train","fence":3}
`

// Only who may act on the things of others is told an id of theirs that is like what they
// wrote.
func TestUnknownTellsNothingOfOthers(t *testing.T) {
	b := newBook(t, roomy)
	grant(t, b, &Request{ID: "train-17", Holder: bob(), Memory: 1, Binding: ByName}, dev(0))
	user, root := actor(alice()), access.Daemon()
	for _, c := range []struct {
		by   *access.Actor
		want bool
	}{{&user, false}, {&root, true}} {
		err := b.Unknown(c.by, access.Release, Key{OwnerOf(c.by), "trian-17", Run{}})
		if strings.Contains(err.Error(), "did you mean train-17?") != c.want {
			t.Errorf("%s is told %v", c.by.User, err)
		}
	}
}

// Who names what nobody has keeps others from the book for as long as it takes to list what
// there is, and not while the name that was meant is looked for.
func TestUnknownLooksForNothingInTheBook(t *testing.T) {
	b := newBook(t, Capacity{Total: 200})
	ann := Holder{User: "ann", UID: 1}
	for i := range 200 {
		r := Request{ID: fmt.Sprint("train-", i, strings.Repeat("x", 60)), Holder: ann, Binding: ByName, Memory: 1}
		apply(t, b, Grant{Lease: r.Lease(dev(0))}, noon)
	}
	by, k := actor(ann), Key{ann.Owner(), "train-1y" + strings.Repeat("x", 59), Run{}}
	var err error
	if n := testing.AllocsPerRun(10, func() { err = b.Unknown(&by, access.Release, k) }); n > 20 {
		t.Errorf("it takes %v allocations", n)
	}
	if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "among yours: did you mean train-1") {
		t.Errorf("it says %v", err)
	}
}
