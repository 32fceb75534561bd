package httpapi

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
)

// A driver that was killed before it could write down what it got asks again, and
// gets the same environment with the lease that stands.
func TestLaunchOfAnExactLeaseAgain(t *testing.T) {
	d := open(t, "2")
	operator := holding(lease.Holder{UID: lease.NoUID, User: "token:kubernetes"}, access.Operator)
	ask := func(pod string) api.Lease {
		t.Helper()
		return decode[api.Lease](t, d.askAs(operator, "POST", "/api/leases", fmt.Sprintf(`{"id":"claim","binding":"named","admitted":true,
			"parts":[{"gpu":"SIM-h200-0","memory_mb":8192,"slots":1},{"gpu":"SIM-h200-1","memory_mb":4096,"slots":0}],
			"scope":[%q],"enforce":"auto","caps":["cupy"]}`, pod)))
	}
	first, again := ask("pod0d9f7e4c-4f3e-4b0f-9d77-000000000001"), ask("pod0d9f7e4c-4f3e-4b0f-9d77-000000000002")
	if first.Stood || !again.Stood || first.Fence != again.Fence || len(again.Scope) != 2 || first.EnforcedBy != "framework" {
		t.Fatalf("first %+v, then %+v", first, again)
	}
	want := []string{
		"BERTH_LEASE=claim", fmt.Sprintf("BERTH_FENCE=%d", first.Fence), "BERTH_MEMORY_MB=4096", "BERTH_CONTEXT_MB=0", "BERTH_GPUS=SIM-h200-0,SIM-h200-1",
		"CUDA_VISIBLE_DEVICES=SIM-h200-0,SIM-h200-1", "CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUPY_GPU_MEMORY_LIMIT=4294967296",
	}
	for what, l := range map[string]api.Lease{"first": first, "again": again, "later": decode[api.Lease](t, d.askAs(operator, "GET", "/api/leases/claim?launch=true&caps=cupy", ""))} {
		if l.Launch == nil {
			t.Fatalf("%s: no launch in %+v", what, l)
		}
		if diff := cmp.Diff(want, l.Launch.Environment); diff != "" || l.Launch.Receipt != first.Launch.Receipt {
			t.Errorf("%s: %q, %s", what, l.Launch.Receipt, diff)
		}
	}
}
