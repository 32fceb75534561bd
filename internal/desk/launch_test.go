package desk

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process/launch"
)

// A launcher that asks again, because it was killed before it could start the
// program, gets what it got the first time.
func TestLaunchOfALeaseThatStood(t *testing.T) {
	o := open(t, "h200")
	by := Caller{Actor: access.Actor{Role: access.Operator}, Holder: lease.Holder{UID: lease.NoUID, User: "token:kubernetes"}}
	ask := func() api.Lease {
		t.Helper()
		l, err := o.Leases.acquire(t.Context(), &by, &wish{again: lease.SameID, LeaseRequest: api.LeaseRequest{
			ID: "claim", GPUs: 1, Memory: 4096, Binding: "named", Enforce: "framework", Caps: []string{"cupy"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	first, second := ask(), ask()
	if first.Stood || !second.Stood || first.Fence != second.Fence || first.Launch == nil || len(first.Launch.Environment) == 0 {
		t.Fatalf("first %+v, then %+v", first, second)
	}
	if diff := cmp.Diff(first.Launch.Environment, second.Launch.Environment); diff != "" || first.Launch.Receipt != second.Launch.Receipt {
		t.Errorf("first %q, then %q; environment %s", first.Launch.Receipt, second.Launch.Receipt, diff)
	}
}

// A lease that ends while somebody asks how to launch under it leaves no use of
// MPS behind.
func TestLaunchOfALeaseThatHasEnded(t *testing.T) {
	o := open(t, "h200")
	by := Caller{Actor: access.Actor{Role: access.Operator}, Holder: lease.Holder{UID: 1, User: "ada"}}
	l, err := o.Leases.Acquire(t.Context(), by, api.LeaseRequest{ID: "job", Memory: 4096, Binding: "named", Enforce: "mps"})
	if err != nil {
		t.Fatal(err)
	}
	held, _ := o.parts.Ledger.Find(keyOf(&l))
	again := LeaseOf(held)
	if err := o.Leases.AddLaunch(t.Context(), by.Actor, &again, held, nil); err != nil || again.Launch.MPS != l.Launch.MPS {
		t.Errorf("again it is %+v, %v, first it was %+v", again.Launch, err, l.Launch)
	}
	o.mps.start = func() error { return o.Leases.giveBack(&l, nil) }
	if err := o.Leases.AddLaunch(t.Context(), by.Actor, &again, held, nil); codeOf(err) != "lease_ended" {
		t.Errorf("for a lease that ended meanwhile: %v", err)
	}
	if o.mps.uses[l.Fence] {
		t.Error("MPS is still in use")
	}
}

// MPS holds a program to the share of its service. A lease that something else enforces has
// none: berth paces it.
func TestLaunchWithTheShareOfAService(t *testing.T) {
	o := open(t, "h200")
	c := *o.parts.Config()
	c.Services = map[string]config.Service{"side": {Compute: gpu.Some[gpu.Percent](30)}, "main": {Compute: gpu.Some[gpu.Percent](100)}}
	o.parts.Config = func() *config.Config { return &c }
	o.remake()
	by := Caller{Actor: access.Actor{Role: access.Operator}, Holder: lease.Holder{UID: 1, User: "ada"}}
	for _, w := range []struct {
		service, enforce string
		want             int
	}{{"side", "mps", 30}, {"side", "framework", 0}, {"main", "mps", 0}, {"", "mps", 0}} {
		l, err := o.Leases.Acquire(t.Context(), by, api.LeaseRequest{ID: w.service + w.enforce, Service: w.service, Memory: 1024, Binding: "named", Enforce: w.enforce})
		if err != nil {
			t.Fatal(err)
		}
		if l.Launch.Compute != w.want {
			t.Errorf("%+v gives %d %%", w, l.Launch.Compute)
		}
		if err := o.Leases.giveBack(&l, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range [][3]int{{0, 0, 0}, {30, 0, 30}, {0, 30, 30}, {30, 20, 20}, {20, 30, 20}} {
		if got := launch.Least(w[0], w[1]); got != w[2] {
			t.Errorf("of %d and %d it is %d", w[0], w[1], got)
		}
	}
}
