package desk

import (
	"context"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
)

// A caller who leaves before the answer finds its lease when it asks again: another
// call of the same caller may have that lease as its answer already.
func TestExactLeaseStaysWhenTheCallerLeaves(t *testing.T) {
	o := open(t, "2xh200")
	by := self(t)
	b := api.LeaseRequest{ID: "claim", Admitted: true, Enforce: "framework"}
	for _, r := range o.parts.Monitor.Readings() {
		b.Parts = append(b.Parts, api.LeaseShare{GPU: r.Device.UUID, Memory: 1000})
	}
	if _, err := o.Leases.Acquire(t.Context(), by, b); codeOf(err) != "not_allowed" {
		t.Errorf("a user is answered with %v", err)
	}
	by.Role = access.Operator
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	o.listen(func(e gpu.Event) {
		if e.Code == gpu.EventGranted {
			leave()
		}
	})
	first, err := o.Leases.Acquire(ctx, by, b)
	if err != nil || first.Stood || ctx.Err() == nil {
		t.Errorf("the one who left: %+v, %v", first, err)
	}
	again, err := o.Leases.Acquire(t.Context(), by, b)
	if err != nil || !again.Stood || again.Fence != first.Fence || again.EnforcedBy != "framework" || len(again.Parts) != 2 {
		t.Errorf("the same again: %+v, %v", again, err)
	}
	if leases, waiting := o.parts.Ledger.Len(); leases != 1 || waiting != 0 {
		t.Errorf("%d leases stand and %d requests wait", leases, waiting)
	}
}
