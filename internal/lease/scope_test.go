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

var root = access.Actor{User: "root", Door: access.Socket, Role: access.Admin}

// A scope is changed by administrators only, and comes back from the journal.
func TestRescope(t *testing.T) {
	b := New()
	b.SetCapacity("GPU-a", Capacity{Total: 100, MaxPipelines: 1, Usable: 1})
	now := time.Unix(1e9, 0)
	granted := &Lease{
		ID: "a", Holder: Holder{User: "ada", UID: 1000}, Binding: ByName, Parts: []Part{{GPU: "GPU-a", Memory: 10}}, Terms: Terms{Unit: "a.service", Scope: []string{"x"}},
	}
	e, err := b.Apply(Grant{Lease: granted}, now)
	if err != nil {
		t.Fatal(err)
	}
	entries := []stored.Entry{EntryOf(&e)}
	ada := access.Actor{User: "ada", UID: 1000, Door: access.Socket, Role: access.User}
	if _, err := b.Apply(Rescope{Key: only(b, "a"), Add: []string{"y"}, By: ada}, now); err == nil || b.Lease(only(b, "a")).Scope[0] != "x" {
		t.Errorf("a user changed the scope: %v", err)
	}
	for _, test := range []struct {
		add, remove, want []string
	}{
		{[]string{"y", "x", "y"}, nil, []string{"x", "y"}},
		{[]string{"x"}, []string{"x"}, []string{"y", "x"}},
		{nil, []string{"x", "y", "z"}, nil},
		{[]string{"pod1"}, nil, []string{"pod1"}},
	} {
		e, err := b.Apply(Rescope{Key: only(b, "a"), Fence: 1, Add: test.add, Remove: test.remove, By: root}, now)
		if err != nil || !slices.Equal(e.After.Scope, test.want) || !slices.Equal(b.Lease(only(b, "a")).Scope, test.want) {
			t.Errorf("add %v, remove %v: %v, %v; want %v", test.add, test.remove, e.After, err, test.want)
		}
		entries = append(entries, EntryOf(&e))
	}
	var many []string
	for i := range MaxScope + 1 {
		many = append(many, fmt.Sprint(i))
	}
	for name, bad := range map[string]Rescope{
		"an old fence": {Key: only(b, "a"), Fence: 7, Add: []string{"y"}}, "no such lease": {Key: only(b, "b"), Add: []string{"y"}},
		"a path": {Key: only(b, "a"), Add: []string{"/system.slice/x"}}, "nothing": {Key: only(b, "a"), Add: []string{""}}, "too many": {Key: only(b, "a"), Add: many},
	} {
		bad.By = root
		if _, err := b.Apply(bad, now); err == nil {
			t.Errorf("%s was taken", name)
		}
	}

	again := New()
	for i := range entries {
		if _, err := again.Read(AppendEntry(nil, &entries[i])); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := again.Dump(), b.Dump(); got != want || !strings.Contains(got, `"unit":"a.service","scope":["pod1"]`) {
		t.Errorf("read back\n%s\nwant\n%s", got, want)
	}
	e, _ = b.Apply(Rescope{Key: only(b, "a"), Add: []string{"z"}, By: root}, now)
	b.Revert(e)
	if got := b.Lease(only(b, "a")).Scope; !slices.Equal(got, []string{"pod1"}) {
		t.Errorf("after a change that could not be written the scope is %v", got)
	}
	empty := stored.New(stored.Scope)
	empty.ID, empty.Fence = "a", 1
	if err := again.Replay(&empty); !errors.Is(err, ErrReplay) {
		t.Errorf("a record without a scope: %v", err)
	}
}

// A lease with a scope is never parked, shrunk or resized, so a lease that is, or
// waits for that, gets no scope.
func TestScopeIsForALeaseAsItWasGranted(t *testing.T) {
	root := access.Daemon()
	for name, begin := range map[string]func(l *Lease) Change{
		"parked": func(l *Lease) Change { return Park{Key: l.Key(), By: root} },
		"shrunk": func(l *Lease) Change { return Resize{Key: l.Key(), Memory: 5, Shrinks: true, By: root} },
		"waiting to grow": func(l *Lease) Change {
			r := l.Growing(50)
			r.By, r.Requested, r.Deadline = actor(alice()), noon, noon.Add(time.Minute)
			return Ask{&r}
		},
	} {
		b := newBook(t, roomy)
		l := grant(t, b, &Request{ID: "job", Holder: alice(), GPUs: 1, Memory: 40, Binding: ByName}, dev(0))
		apply(t, b, begin(l), noon)
		if _, err := b.Apply(Rescope{Key: l.Key(), Add: []string{"pod1"}, By: root}, noon); !errors.Is(err, ErrState) || b.Lease(l.Key()).Scope != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUnitsAndScopesThatAreRefused(t *testing.T) {
	good := Request{ID: "a", Memory: 1, GPUs: 1, Binding: ByName}
	for field, change := range map[string]func(*Request){
		"unit":  func(r *Request) { r.Unit = "/system.slice/a.service" },
		"scope": func(r *Request) { r.Scope = []string{"a", "b\n"} },
	} {
		r := good
		change(&r)
		var wrong FieldErrors
		if err := r.Validate(); !errors.As(err, &wrong) || len(wrong) != 1 || wrong[0].Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
