package client

import (
	"context"

	"github.com/berth-gpu/berth/api"
)

// Park moves the memory of a lease to the memory of the machine, and returns when that is
// done: after seconds, or a minute for a full card. Options.Timeout does not count
// meanwhile. If ctx ends, the parking goes on.
//
// A refusal is an [*api.Problem]: cannot_park, no_host_memory, parking_failed,
// wrong_state, and others; the lease then stays where it was.
func (c *Client) Park(ctx context.Context, id string, p api.Park) (api.Lease, error) {
	return postTo[api.Lease](ctx, c.unhurried(), leasePath(id)+"/park", p)
}

// Resume moves the memory of a parked lease back to its device, and returns when its
// programs run. It waits for room for r.Timeout or else for the daemon's
// allocation_timeout. When ctx ends meanwhile, the lease stays parked.
func (c *Client) Resume(ctx context.Context, id string, r api.Resume) (api.Lease, error) {
	return postTo[api.Lease](ctx, c.unhurried(), leasePath(id)+"/resume", r)
}

// Wake resumes a lease of the calling program if it is parked, and returns when it is
// active. It waits for its turn without a limit. A fence of 0 means any lease with the
// id.
func (c *Client) Wake(ctx context.Context, id string, fence uint64) (api.Lease, error) {
	return postTo[api.Lease](ctx, c.unhurried(), leasePath(id)+"/wake", api.Park{Fence: fence})
}

// Optimize gets memory back from the leases that the caller may change, and returns when
// that is done. Meanwhile, events with the code optimized report the progress.
func (c *Client) Optimize(ctx context.Context, o api.Optimize) (api.Optimization, error) {
	return post[api.Optimization](ctx, c.unhurried(), "/api/optimize", o)
}

// unhurried returns a client without a timeout.
func (c *Client) unhurried() *Client {
	unhurried := *c
	unhurried.timeout = 0
	return &unhurried
}
