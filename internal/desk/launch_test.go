package desk

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
)

// A launcher that asks again, because it was killed before it could start the
// program, gets what it got the first time.
func TestLaunchOfALeaseThatStood(t *testing.T) {
	o := open(t, "h200")
	by := Caller{Actor: access.Actor{Role: access.Operator}, Holder: lease.Holder{UID: lease.NoUID, User: "token:kubernetes"}}
	ask := func() api.Lease {
		t.Helper()
		l, err := o.acquire(t.Context(), &by, &wish{again: lease.SameID, LeaseRequest: api.LeaseRequest{
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
	l, err := o.Acquire(t.Context(), by, api.LeaseRequest{ID: "job", Memory: 4096, Binding: "named", Enforce: "mps"})
	if err != nil {
		t.Fatal(err)
	}
	held, _ := o.Ledger.Find(keyOf(&l))
	again := LeaseOf(held)
	if err := o.AddLaunch(t.Context(), by.Actor, &again, held, nil); err != nil || again.Launch.MPS != l.Launch.MPS {
		t.Errorf("again it is %+v, %v, first it was %+v", again.Launch, err, l.Launch)
	}
	o.mps.start = func() error { return o.giveBack(&l, nil) }
	if err := o.AddLaunch(t.Context(), by.Actor, &again, held, nil); codeOf(err) != "lease_ended" {
		t.Errorf("for a lease that ended meanwhile: %v", err)
	}
	if o.mps.uses[l.Fence] {
		t.Error("MPS is still in use")
	}
}
