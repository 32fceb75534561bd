package httpapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
)

// A launcher that places containers gets the environment of their programs with
// the lease, and again for a lease that stands.
func TestLaunchEnvironment(t *testing.T) {
	d := open(t, "1")
	operator := holding(lease.Holder{UID: lease.NoUID, User: "token:kubernetes"}, access.Operator)
	ada := user(4711)
	granted := decode[api.Lease](t, d.askAs(operator, "POST", "/api/leases",
		`{"id":"claim","memory_mb":8192,"binding":"named","scope":["pod0d9f7e4c-4f3e-4b0f-9d77-000000000001"],"enforce":"auto","caps":["cupy","jax"]}`))
	if granted.EnforcedBy != "framework" || granted.Launch == nil {
		t.Fatalf("the lease is %+v", granted)
	}
	want := []string{
		"BERTH_LEASE=claim", fmt.Sprintf("BERTH_FENCE=%d", granted.Fence), "BERTH_MEMORY_MB=8192", "BERTH_CONTEXT_MB=0", "BERTH_GPUS=SIM-h200-0",
		"CUDA_VISIBLE_DEVICES=SIM-h200-0", "CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUPY_GPU_MEMORY_LIMIT=8589934592", "XLA_PYTHON_CLIENT_MEM_FRACTION=0.056979",
	}
	const receipt = "CuPy and JAX take at most 8 GiB of the 8 GiB; what other libraries and programs take is measured, and not refused."
	launched := func(what string, l api.Lease, want []string, receipt string) {
		t.Helper()
		if l.Launch == nil {
			t.Fatalf("%s: there is no launch in %+v", what, l)
		}
		if diff := cmp.Diff(want, l.Launch.Environment); diff != "" || l.Launch.Receipt != receipt {
			t.Errorf("%s: receipt %q, environment %s", what, l.Launch.Receipt, diff)
		}
	}
	launched("the grant", granted, want, receipt)
	again := decode[api.Lease](t, d.askAs(operator, "GET", "/api/leases/claim?launch=true&caps=cupy,jax", ""))
	launched("the lease again", again, want, receipt)
	if again.Fence != granted.Fence || len(again.Launch.Devices) != 1 {
		t.Errorf("again it is %+v", again)
	}
	launched("one library", decode[api.Lease](t, d.askAs(operator, "GET", "/api/leases/claim?launch=true&caps=cupy", "")), want[:8],
		strings.Replace(receipt, "CuPy and JAX take", "CuPy takes", 1))
	if all := decode[api.Lease](t, d.askAs(operator, "GET", "/api/leases/claim?launch=true", "")); !slices.ContainsFunc(all.Launch.Environment, func(v string) bool { return strings.HasPrefix(v, "PYTORCH_ALLOC_CONF=") }) {
		t.Errorf("without a choice the environment is %q", all.Launch.Environment)
	}
	if plain := decode[api.Lease](t, d.askAs(operator, "GET", "/api/leases/claim", "")); plain.Launch != nil {
		t.Errorf("who does not ask gets %+v", plain.Launch)
	}

	expect(t, "another user", d.askAs(ada, "GET", "/api/leases/claim?launch=true", ""), http.StatusForbidden, "not_yours")
	expect(t, "an unknown library", d.askAs(operator, "GET", "/api/leases/claim?launch=true&caps=numpy", ""), http.StatusUnprocessableEntity, "invalid_request")
	expect(t, "a choice that is none", d.askAs(operator, "GET", "/api/leases/claim?launch=perhaps", ""), http.StatusUnprocessableEntity, "invalid_request")

	own := decode[api.Lease](t, d.askAs(ada, "POST", "/api/leases", `{"id":"own","memory_mb":1024,"binding":"named"}`))
	if own.Launch != nil {
		t.Errorf("a request that is no launcher's gets %+v", own.Launch)
	}
	own = decode[api.Lease](t, d.askAs(ada, "GET", "/api/leases/own?launch=true", ""))
	launched("the own lease of a user", own, []string{
		"BERTH_LEASE=own", fmt.Sprintf("BERTH_FENCE=%d", own.Fence), "BERTH_MEMORY_MB=1024", "BERTH_CONTEXT_MB=0", "BERTH_GPUS=SIM-h200-0",
		"CUDA_VISIBLE_DEVICES=SIM-h200-0", "CUDA_DEVICE_ORDER=PCI_BUS_ID",
	}, "Nothing holds it to 1 GiB.")

	watched := decode[api.Lease](t, d.askAs(operator, "POST", "/api/leases", `{"id":"watched","memory_mb":1024,"slots":0,"scope":["pod0d9f7e4c-4f3e-4b0f-9d77-000000000002"]}`))
	if watched.EnforcedBy != "watchdog" || watched.Launch == nil || !slices.Contains(watched.Launch.Environment, "BERTH_LEASE=watched") {
		t.Errorf("a lease with a scope is %+v", watched)
	}
}

// What nothing would hold is refused, and leaves nothing behind.
func TestLaunchesThatAreRefused(t *testing.T) {
	d := open(t, "1")
	operator := holding(lease.Holder{UID: 0, User: "root"}, access.Admin)
	for body, code := range map[string]string{
		`{"id":"a","memory_mb":1,"caps":["numpy"],"enforce":"auto"}`:                                                      "invalid_request",
		`{"id":"a","memory_mb":1,"caps":["cupy"]}`:                                                                        "invalid_request",
		`{"id":"a","memory_mb":1,"caps":["cupy"],"enforce":"watchdog"}`:                                                   "invalid_request",
		`{"id":"a","memory_mb":1,"caps":"cupy","enforce":"auto"}`:                                                         "invalid_request",
		`{"id":"a","memory_mb":1,"scope":["pod0d9f7e4c-4f3e-4b0f-9d77-000000000001"],"enforce":"framework"}`:              "invalid_request",
		`{"id":"a","memory_mb":1,"scope":["pod0d9f7e4c-4f3e-4b0f-9d77-000000000001"],"enforce":"mps"}`:                    "mps_unavailable",
		`{"id":"a","memory_mb":1,"scope":["pod0d9f7e4c-4f3e-4b0f-9d77-000000000001"],"enforce":"mps","caps":["cupy"]}`:    "invalid_request",
		`{"id":"a","memory_mb":1,"scope":["pod0d9f7e4c-4f3e-4b0f-9d77-000000000001"],"enforce":"auto","caps":["cupy",1]}`: "invalid_request",
	} {
		want := http.StatusUnprocessableEntity
		if code == "mps_unavailable" {
			want = http.StatusConflict
		}
		expect(t, body, d.askAs(operator, "POST", "/api/leases", body), want, code)
	}
	if all := decode[api.Leases](t, d.askAs(operator, "GET", "/api/leases", "")); len(all.Leases) != 0 {
		t.Errorf("left behind: %+v", all.Leases)
	}
}
