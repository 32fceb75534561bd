package desk

import (
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

// Leases take from a pool what it has, and every refusal says which rule it is by.
func TestPool(t *testing.T) {
	o := open(t, "2xh200")
	by := self(t)
	ask := func(r api.LeaseRequest) (api.Lease, error) {
		r.Binding, r.Timeout = "named", gpu.Some(3600.0)
		return o.Leases.Acquire(t.Context(), by, r)
	}
	pool, err := ask(api.LeaseRequest{ID: "render", Memory: 20 << 10, Pool: true})
	if err != nil || pool.Parts[0].Slots != 0 || pool.Pool == nil || *pool.Pool != (api.Pool{Left: 20 << 10}) {
		t.Fatalf("the pool is %+v, %v", pool.Pool, err)
	}
	took, err := ask(api.LeaseRequest{ID: "a", Memory: 8 << 10, FromPool: "render"})
	if err != nil || took.FromPool != "render" || took.Parent != "render" || took.Parts[0].Slots != 0 || took.Parts[0].GPU != pool.Parts[0].GPU {
		t.Errorf("took %+v, %v", took, err)
	}
	held, _ := o.parts.Ledger.Find(keyOf(&pool))
	if now := LeaseOf(held).Pool; *now != (api.Pool{Taken: 8 << 10, Left: 12 << 10, Leases: 1}) {
		t.Errorf("the pool says %+v", now)
	}
	for name, c := range map[string]struct {
		request api.LeaseRequest
		code    string
	}{
		"more than is left":        {api.LeaseRequest{Memory: 13 << 10, FromPool: "render"}, "pool_full"},
		"more than it ever has":    {api.LeaseRequest{Memory: 21 << 10, FromPool: "render"}, "pool_full"},
		"from nothing":             {api.LeaseRequest{Memory: 1, FromPool: "nothing"}, "no_pool"},
		"from a lease":             {api.LeaseRequest{Memory: 1, FromPool: "a"}, "no_pool"},
		"no memory":                {api.LeaseRequest{FromPool: "render"}, "invalid_request"},
		"all memory":               {api.LeaseRequest{AllMemory: true, FromPool: "render"}, "invalid_request"},
		"a device alone":           {api.LeaseRequest{Memory: 1, Exclusive: true, FromPool: "render"}, "invalid_request"},
		"a slot":                   {api.LeaseRequest{Memory: 1, Slots: gpu.Some(1), FromPool: "render"}, "invalid_request"},
		"with another parent":      {api.LeaseRequest{Memory: 1, Parent: "a", FromPool: "render"}, "invalid_request"},
		"a pool of a pool":         {api.LeaseRequest{Memory: 1, Pool: true, FromPool: "render"}, "invalid_request"},
		"a pool over both devices": {api.LeaseRequest{Memory: 1, Pool: true, GPUs: 2}, "invalid_request"},
		"a pool that is parked":    {api.LeaseRequest{Memory: 1, Pool: true, Parkable: true}, "invalid_request"},
	} {
		c.request.ID = "b"
		if _, err := ask(c.request); codeOf(err) != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
	if _, err := o.Leases.Resize(t.Context(), by, lease.Name{ID: "render"}, api.Resize{Memory: 4 << 10}); codeOf(err) != "pool_in_use" {
		t.Errorf("made too small: %v", err)
	}
	e, err := o.Leases.Explain(by, api.LeaseRequest{Memory: 12 << 10, FromPool: "render"})
	if err != nil || e.Grant == nil || e.Grant.FromPool != "render" || e.LargestNow != 12<<10 {
		t.Errorf("explained: %+v, %v", e.Grant, err)
	}
	if left, waiting := o.parts.Ledger.Len(); left != 2 || waiting != 0 {
		t.Errorf("%d leases and %d who wait are left", left, waiting)
	}
}
