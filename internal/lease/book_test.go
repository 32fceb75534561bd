package lease

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease/queue"
)

var roomy = Capacity{Total: 100, MaxPipelines: 8, Usable: 8}

// grant grants a request on devices at noon.
func grant(t testing.TB, b *Book, r *Request, devices ...string) *Lease {
	t.Helper()
	return apply(t, b, Grant{Lease: r.Lease(devices...)}, noon).After
}

func apply(t testing.TB, b *Book, c Change, now time.Time) Effect {
	t.Helper()
	e, err := b.Apply(c, now)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// refused applies a change that must be refused, and returns why.
func refused(t testing.TB, b *Book, c Change, now time.Time) error {
	t.Helper()
	before := b.Dump()
	_, err := b.Apply(c, now)
	if err == nil {
		t.Fatalf("%T %+v was not refused", c, c)
	}
	if b.Dump() != before {
		t.Fatalf("%T %+v was refused and changed the book", c, c)
	}
	return err
}

// actor returns the user of a holder, as they ask for changes.
func actor(h Holder) access.Actor {
	return access.Actor{User: h.User, UID: h.UID, Door: access.Socket, Role: access.User}
}

// only returns the key of the only lease or request with an id, or a key that
// nothing has.
func only(b *Book, id string) Key {
	for e := range b.leases.called(id) {
		return e.lease.Key()
	}
	for w := range b.waiting.called(id) {
		return w.request.Key()
	}
	return Key{Owner: Owner{UID: NoUID, User: "nobody"}, ID: id}
}

func alice() Holder { return Holder{User: "alice", UID: 1000, PID: 42, Start: 7, Boot: "b1"} }

func TestLifeOfALease(t *testing.T) {
	b := newBook(t, roomy)
	r := &Request{
		ID: "job", Holder: alice(), GPUs: 1, Memory: 40, Slots: 2, Binding: ByTTL, TTL: time.Minute,
		Requested: noon, Deadline: noon.Add(time.Hour), Terms: Terms{Note: "raised"},
	}
	if e := apply(t, b, Ask{r}, noon); e.Durable() || e.Request != r || b.Request(only(b, "job")) != r {
		t.Errorf("asked: %+v", e)
	}
	e := apply(t, b, Grant{Lease: r.Lease(dev(0))}, noon.Add(time.Second))
	l := e.After
	if !e.Durable() || e.Request != r || b.Request(only(b, "job")) != nil || b.Lease(only(b, "job")) != l {
		t.Errorf("granted: %+v", e)
	}
	if l.Fence != 1 || l.State != Active || !l.Expires.Equal(noon.Add(61*time.Second)) || l.Note != "raised" {
		t.Errorf("the lease is %+v", l)
	}
	e = apply(t, b, Renew{Key: only(b, "job"), Fence: 1, By: actor(alice())}, noon.Add(30*time.Second))
	if !e.After.Expires.Equal(noon.Add(90*time.Second)) || !l.Expires.Equal(noon.Add(61*time.Second)) {
		t.Errorf("renewed until %s, and the old lease ends %s", e.After.Expires, l.Expires)
	}
	apply(t, b, Park{Key: only(b, "job"), By: access.Daemon()}, noon.Add(40*time.Second))
	if s, _ := b.Sum(dev(0)); s.Available() != 100 || s.Active != 0 || userShare(b, alice().Owner()) != 0 {
		t.Errorf("parked, and the sum is %+v", s)
	}
	apply(t, b, Resume{Key: only(b, "job"), By: access.Daemon()}, noon.Add(50*time.Second))
	if s, _ := b.Sum(dev(0)); s.Available() != 60 || s.Active != 2 || userShare(b, alice().Owner()) != 0.4 {
		t.Errorf("resumed, and the sum is %+v", s)
	}
	if due := b.Due(noon.Add(99 * time.Second)); due != nil { // it was parked for ten seconds
		t.Errorf("due too early: %v", due)
	}
	due := b.Due(noon.Add(100 * time.Second))
	if len(due) != 1 || due[0] != (Expire{only(b, "job")}) {
		t.Fatalf("due: %v", due)
	}
	e = apply(t, b, due[0], noon.Add(100*time.Second))
	if e.Kind != Expired || e.After != nil || e.Lease() != e.Before || b.Lease(only(b, "job")) != nil {
		t.Errorf("expired: %+v", e)
	}
	if again := grant(t, b, r, dev(0)); again.Fence != 2 {
		t.Errorf("the id was used again with fence %d", again.Fence)
	}
}

func TestRefusals(t *testing.T) {
	b := newBook(t, roomy, roomy)
	by, bob := actor(alice()), actor(Holder{User: "bob", UID: 1001})
	ttl := &Request{ID: "ttl", Holder: alice(), GPUs: 1, Memory: 10, Binding: ByTTL, TTL: time.Minute, Deadline: noon, Requested: noon}
	named := &Request{ID: "named", Holder: alice(), Memory: 10, Binding: ByName}
	grant(t, b, ttl, dev(0))
	grant(t, b, named, dev(1))
	waits := *ttl
	waits.ID, waits.Deadline = "waits", noon.Add(time.Hour)
	apply(t, b, Ask{&waits}, noon)
	cases := []struct {
		name string
		c    Change
		want error
		text string
	}{
		{"ask for an id of a lease", Ask{ttl}, ErrDuplicate, "ask for ttl: the id is in use"},
		{"ask for an id that waits", Ask{&waits}, ErrDuplicate, ""},
		{"grant an id of a lease", Grant{Lease: ttl.Lease(dev(1))}, ErrDuplicate, "take another id"},
		{"grant on an unknown device", Grant{Lease: waits.Lease("GPU-9")}, ErrDevice, "GPU-9"},
		{"grant too much memory", Grant{Lease: (&Request{ID: "x", Memory: 91, Binding: ByName}).Lease(dev(0))}, ErrOverSold, "grant x: GPU-0 has 90 MiB available, and the lease needs 91 MiB"},
		{"grant too many slots", Grant{Lease: (&Request{ID: "x", Slots: 9, Binding: ByName}).Lease(dev(0))}, ErrOverSold, "0 of 8 usable slots in use, and the lease needs 9 more"},
		{"grant one of two", Grant{Lease: &Lease{ID: "x", Binding: ByName, Parts: []Part{{dev(1), 10, 0}, {dev(0), 91, 0}}}}, ErrOverSold, "GPU-0"},
		{"grant with a wrong measurement", Grant{Lease: waits.Lease(dev(0)), Adopted: []gpu.MiB{1, 2}}, nil, "2 measurements for 1 devices"},
		{"renew nothing", Renew{Key: only(b, "x"), By: by}, ErrUnknown, "renew x: there is no"},
		{"renew what has ended", Renew{Key: only(b, "x"), Fence: 1, By: by}, ErrStaleFence, "the lease with fence 1 has ended"},
		{"renew with a fence from the future", Renew{Key: only(b, "x"), Fence: 99, By: by}, ErrUnknown, ""},
		{"renew somebody else's", Renew{Key: only(b, "ttl"), By: bob}, ErrNotYours, "it belongs to somebody else: alice"},
		{"renew with an old fence", Renew{Key: only(b, "ttl"), Fence: 2, By: by}, ErrStaleFence, "2; the lease with that id has fence 1"},
		{"renew a named lease", Renew{Key: only(b, "named"), By: by}, ErrBinding, "it is a named lease and needs no renewal"},
		{"renew for a century", Renew{Key: only(b, "ttl"), By: by, TTL: 876000 * time.Hour}, nil, "ttl_seconds: is 3153600000; it must be from 1 to 2592000 (30 days)"},
		{"release somebody else's", Release{Key: only(b, "named"), By: bob}, ErrNotYours, "release named"},
		{"renew what waits", Renew{Key: only(b, "waits"), By: by}, ErrWaiting, "renew waits: the request still waits and has no lease yet"},
		{"bind what waits", Bind{Key: only(b, "waits"), By: by}, ErrWaiting, ""},
		{"release nothing", Release{Key: only(b, "x"), By: by}, ErrUnknown, ""},
		{"expire too early", Expire{only(b, "ttl")}, ErrNotDue, "it expires at 2026-11-15T12:01:00Z"},
		{"expire a named lease", Expire{only(b, "named")}, ErrBinding, ""},
		{"revoke an older lease", Revoke{Key: only(b, "named"), By: access.Daemon(), Fence: 1}, ErrStaleFence, ""},
		{"park somebody else's", Park{Key: only(b, "named"), By: bob}, ErrNotYours, ""},
		{"resume what is not parked", Resume{Key: only(b, "named"), By: by}, ErrState, "it is active"},
		{"withdraw a lease", Withdraw{Key: only(b, "named"), By: by}, ErrUnknown, ""},
		{"withdraw somebody else's", Withdraw{Key: only(b, "waits"), By: bob}, ErrNotYours, ""},
		{"time out too early", TimeOut{only(b, "waits")}, ErrNotDue, "it waits until"},
		{"time out nothing", TimeOut{only(b, "x")}, ErrUnknown, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := refused(t, b, c.c, noon)
			if c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%v is not %v", err, c.want)
			}
			if !strings.Contains(err.Error(), c.text) {
				t.Errorf("%q does not contain %q", err, c.text)
			}
		})
	}
	if err := refused(t, b, Renew{Key: only(b, "ttl"), Fence: 1, By: by}, noon.Add(time.Minute)); !errors.Is(err, ErrExpired) {
		t.Errorf("renew what is over but still there: %v", err)
	}
	e := apply(t, b, Renew{Key: only(b, "ttl"), By: by, TTL: time.Hour}, noon)
	if e.After.TTL != time.Hour || !e.After.Expires.Equal(noon.Add(time.Hour)) {
		t.Errorf("renewed for an hour: %+v", e.After)
	}
	apply(t, b, Release{Key: only(b, "ttl"), Fence: 1, By: by}, noon.Add(time.Minute))
}

// A refusal names what the lease needs: memory, also where more slots are in use than may be.
func TestOverSoldSaysWhatIsLacking(t *testing.T) {
	e := &OverSoldError{ID: "a", GPU: dev(0), Sum: Sum{Capacity: Capacity{Total: 10, Usable: 1}, Leased: 8, Active: 2}, Needs: 4}
	if want := "grant a: GPU-0 has 2 MiB available, and the lease needs 4 MiB"; e.Error() != want {
		t.Errorf("%v, want %s", e, want)
	}
	if e.NeedsSlots = 1; !strings.Contains(e.Error(), "2 of 1 usable slots in use") {
		t.Error(e)
	}
}

// However leases come and end, the list of them has no more gaps than leases.
func TestGapsAreClosed(t *testing.T) {
	b := newBook(t, Capacity{Total: 100})
	var all []*Lease
	for i := range 100 {
		all = append(all, grant(t, b, &Request{ID: strconv.Itoa(i), Memory: 1, Binding: ByName}, dev(0)))
	}
	for _, l := range all {
		apply(t, b, Release{Key: l.Key(), By: access.Daemon()}, noon)
		if err := b.checkGrants(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestGrantsThatAreNone(t *testing.T) {
	b := newBook(t, roomy)
	for name, l := range map[string]Lease{
		"no id":             {Binding: ByName, Parts: []Part{{dev(0), 1, 0}}},
		"no device":         {ID: "a", Binding: ByName},
		"an empty device":   {ID: "a", Binding: ByName, Parts: []Part{{"", 1, 0}}},
		"nothing":           {ID: "a", Binding: ByName, Parts: []Part{{dev(0), 0, 0}}},
		"negative memory":   {ID: "a", Binding: ByName, Parts: []Part{{dev(0), -1, 1}}},
		"too much memory":   {ID: "a", Binding: ByName, Parts: []Part{{dev(0), 1 << 62, 1}}},
		"negative slots":    {ID: "a", Binding: ByName, Parts: []Part{{dev(0), 1, -1}}},
		"a device twice":    {ID: "a", Binding: ByName, Parts: []Part{{dev(0), 1, 0}, {dev(0), 1, 0}}},
		"no binding":        {ID: "a", Parts: []Part{{dev(0), 1, 0}}},
		"no process":        {ID: "a", Binding: ByProcess, Parts: []Part{{dev(0), 1, 0}}},
		"no time to live":   {ID: "a", Binding: ByTTL, Parts: []Part{{dev(0), 1, 0}}},
		"two kinds of ends": {ID: "a", Binding: ByName, TTL: time.Minute, Parts: []Part{{dev(0), 1, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			var fields FieldErrors
			if err := refused(t, b, Grant{Lease: &l}, noon); !errors.As(err, &fields) {
				t.Errorf("%v names no field", err)
			}
		})
	}
}

func TestTheSum(t *testing.T) {
	b := newBook(t, Capacity{Total: 100, Limit: 90, Reserve: 5, MaxPipelines: 4, Usable: 2})
	grant(t, b, &Request{ID: "a", Memory: 20, Slots: 1, Binding: ByName}, dev(0))
	grant(t, b, &Request{ID: "b", Memory: 10, Binding: ByName}, dev(0))
	b.Observe(only(b, "a"), dev(0), 25) // five too many
	b.Observe(only(b, "b"), dev(0), 3)  // within its lease
	b.ObserveForeign(dev(0), 7)
	want := Sum{Capacity{100, 90, 5, 4, 2}, 30, 5, 7, 1, 2, 0}
	if s, _ := b.Sum(dev(0)); s != want || s.Available() != 90-5-25-10-7 || s.FreeSlots() != 1 {
		t.Errorf("the sum is %+v, available %s", s, s.Available())
	}
	// What cannot be right must not overflow anything.
	b.Observe(only(b, "a"), dev(0), math.MaxInt64)
	b.ObserveForeign(dev(0), math.MaxInt64)
	if s, _ := b.Sum(dev(0)); s.Available() > 0 || s.Overuse != MaxMemory-20 {
		t.Errorf("available %s after measuring %s too much", s.Available(), s.Overuse)
	}
	b.Observe(only(b, "a"), dev(0), 25)
	b.ObserveForeign(dev(0), -4)
	if s, _ := b.Sum(dev(0)); s.Foreign != 0 {
		t.Errorf("foreign %s", s.Foreign)
	}
	holdings := b.Holdings(dev(0))
	if len(holdings) != 2 || holdings[0].Lease.ID != "a" || holdings[0].Measured != 25 || holdings[1].Part.Memory != 10 {
		t.Errorf("holdings %+v", holdings)
	}
	if b.Observe(only(b, "x"), dev(0), 1) || b.Observe(only(b, "a"), dev(1), 1) {
		t.Error("observed what is not there")
	}
	if _, ok := b.Sum("GPU-9"); ok || b.Holdings("GPU-9") != nil {
		t.Error("an unknown device has a sum")
	}
}

func TestUsableSlots(t *testing.T) {
	for _, c := range []struct {
		max        int
		multiplier float64
		want       int
	}{
		{4, 1, 4}, {4, 0.8, 3}, {5, 0.8, 4}, {4, 0.5, 2}, {3, 0.5, 1}, {1, 0.5, 1}, {1, 0.01, 1},
		{8, 0, 0}, {0, 1, 0}, {-1, 1, 0}, {100, 0.29, 29}, {4, 1.5, 4}, {4, -1, 0},
	} {
		if got := UsableSlots(c.max, c.multiplier); got != c.want {
			t.Errorf("UsableSlots(%d, %g) = %d, want %d", c.max, c.multiplier, got, c.want)
		}
	}
}

// Adopted memory moves from foreign to the lease; the device has no less left
// than before, even where it has too little.
func TestAdoption(t *testing.T) {
	b := newBook(t, Capacity{Total: 100, MaxPipelines: 1, Usable: 1})
	b.ObserveForeign(dev(0), 110)
	r := &Request{ID: "found", Holder: alice(), Memory: 60, Slots: 1, Binding: ByProcess}
	if err := refused(t, b, Grant{Lease: r.Lease(dev(0))}, noon); !errors.Is(err, ErrOverSold) {
		t.Errorf("not adopted: %v", err)
	}
	e := apply(t, b, Grant{Lease: r.Lease(dev(0)), Adopted: []gpu.MiB{70}}, noon)
	want := Sum{Capacity{100, 0, 0, 1, 1}, 60, 10, 40, 1, 1, 0}
	if s, _ := b.Sum(dev(0)); s != want || s.Available() != -10 {
		t.Errorf("adopted: %+v", s)
	}
	b.Revert(e)
	if s, _ := b.Sum(dev(0)); s.Foreign != 110 || s.Leased != 0 {
		t.Errorf("taken back: %+v", s)
	}
	r.Memory = 90 // twenty more than is there already
	if err := refused(t, b, Grant{Lease: r.Lease(dev(0)), Adopted: []gpu.MiB{70}}, noon); !errors.Is(err, ErrOverSold) {
		t.Errorf("more than was there: %v", err)
	}
}

func TestParkingFreesAndResumingNeedsRoom(t *testing.T) {
	b := newBook(t, roomy)
	grant(t, b, &Request{ID: "a", Memory: 80, Slots: 5, Binding: ByName}, dev(0))
	apply(t, b, Park{Key: only(b, "a"), By: access.Daemon()}, noon)
	b.Observe(only(b, "a"), dev(0), 4)
	grant(t, b, &Request{ID: "b", Memory: 30, Slots: 1, Binding: ByName}, dev(0))
	var over *OverSoldError
	if err := refused(t, b, Resume{Key: only(b, "a"), By: access.Daemon()}, noon); !errors.As(err, &over) || over.Needs != 76 || over.Sum.Available() != 66 {
		t.Errorf("resume: %v", err)
	}
	apply(t, b, Release{Key: only(b, "b"), By: access.Daemon()}, noon)
	apply(t, b, Resume{Key: only(b, "a"), By: access.Daemon()}, noon)
	if err := refused(t, b, Resume{Key: only(b, "a"), By: access.Daemon()}, noon); !errors.Is(err, ErrState) {
		t.Errorf("resume twice: %v", err)
	}
}

func TestHoldersAreKnownByUserID(t *testing.T) {
	for _, c := range []struct {
		a, b Holder
		want bool
	}{
		{Holder{User: "a", UID: 1}, Holder{User: "renamed", UID: 1}, true},
		{Holder{User: "a", UID: 1}, Holder{User: "a", UID: 2}, false},
		{Holder{User: "a", UID: NoUID}, Holder{User: "a", UID: NoUID}, true},
		{Holder{User: "a", UID: NoUID}, Holder{User: "b", UID: NoUID}, false},
		{Holder{User: "a", UID: NoUID}, Holder{User: "a", UID: 0}, false},
	} {
		if c.a.Same(c.b) != c.want || c.b.Same(c.a) != c.want {
			t.Errorf("%+v and %+v: %v", c.a, c.b, !c.want)
		}
	}
}

func TestListings(t *testing.T) {
	b := newBook(t, roomy, roomy)
	for _, id := range []string{"c", "a", "b"} {
		grant(t, b, &Request{ID: id, Memory: 1, Binding: ByName}, dev(0), dev(1))
	}
	var ids []string
	for _, l := range b.Leases() {
		ids = append(ids, l.ID)
	}
	if !slices.Equal(ids, []string{"c", "a", "b"}) {
		t.Errorf("leases by age: %v", ids)
	}
	if u := (&Request{GPUs: 2, Memory: 10, Slots: 3}).Total(); u != (Usage{20, 6}) {
		t.Errorf("a request for two devices takes %+v", u)
	}
	if u := b.Lease(only(b, "a")).Total(); u != (Usage{2, 0}) || b.ServiceUsage("") != (Usage{6, 0}) {
		t.Errorf("usage %+v, %+v", u, b.ServiceUsage(""))
	}
	if b.Lease(only(b, "x")) != nil || b.Request(only(b, "x")) != nil || b.ServiceUsage("x") != (Usage{}) {
		t.Error("something that is not there was found")
	}
}

// A process may have any name; what is written down must be text.
func TestBrokenTextIsCleaned(t *testing.T) {
	b := newBook(t, roomy)
	h := alice()
	h.Name = "evil\xff\x00name"
	grant(t, b, &Request{ID: "a", Holder: h, Memory: 1, Binding: ByName}, dev(0))
	again := newBook(t)
	replayText(t, again, b.Dump())
	if name := again.Lease(only(again, "a")).Holder.Name; name != "evil\uFFFD\uFFFDname" || b.Lease(only(b, "a")).Holder.Name != name {
		t.Errorf("%q became %q", h.Name, name)
	}
}

// Check must see what is wrong: a book that cannot fail proves nothing.
func TestCheckSees(t *testing.T) {
	for name, spoil := range map[string]func(b *Book){
		"a sum":              func(b *Book) { b.devices[dev(0)].Leased++ },
		"the machine":        func(b *Book) { b.ceiling++ },
		"a fence":            func(b *Book) { b.fence = 0 },
		"an alarm":           func(b *Book) { b.leases.first["a"].alarm.at = noon },
		"the heap":           func(b *Book) { b.alarms[0], b.alarms[1] = b.alarms[1], b.alarms[0] },
		"a missing alarm":    func(b *Book) { b.alarms = b.alarms[:1] },
		"a user":             func(b *Book) { b.users[alice().Owner()].Memory++ },
		"a forgotten user":   func(b *Book) { b.users[Owner{UID: 66}] = &Count{} },
		"a spot":             func(b *Book) { b.leases.first["a"].places[0].at = 7 },
		"a lease":            func(b *Book) { b.leases.first["b"] = b.leases.first["a"] },
		"an impossible part": func(b *Book) { b.leases.first["a"].lease.Parts[0].Memory = -1 },
		"the queue":          func(b *Book) { b.queue = queue.New[lane, *Request](b.rank) },
		"a lane":             func(b *Book) { b.shares = map[Key]float64{only(b, "w"): 0.5} },
		"a request twice":    func(b *Book) { w := *b.waiting.first["w"].request; b.queue.Add(b.lane(&w), w.inQueue()) },
		"children":           func(b *Book) { b.children++ },
	} {
		t.Run(name, func(t *testing.T) {
			b := New()
			b.SetCapacity(dev(0), roomy)
			r := &Request{ID: "a", Holder: alice(), GPUs: 1, Memory: 10, Slots: 1, Binding: ByTTL, TTL: time.Minute}
			grant(t, b, r, dev(0))
			waits := *r
			waits.ID, waits.Requested, waits.Deadline = "w", noon, noon.Add(time.Hour)
			apply(t, b, Ask{&waits}, noon)
			if err := b.Check(); err != nil {
				t.Fatal(err)
			}
			if spoil(b); b.Check() == nil {
				t.Error("nothing was seen")
			}
		})
	}
}

// userShare returns the dominant share of a user, from 0 to 1.
func userShare(b *Book, user Owner) float64 { return b.share(b.UserCount(user).Usage) }
