package client

import (
	"context"

	"github.com/berth-gpu/berth/api"
)

// Drain takes a device out of use: leases there go on, and the daemon grants no
// new ones.
func (c *Client) Drain(ctx context.Context, r api.DrainRequest) (api.Drained, error) {
	return post[api.Drained](ctx, c, "/api/gpu/drain", r)
}

// Undrain lets a drained device be used again.
func (c *Client) Undrain(ctx context.Context, r api.UndrainRequest) (api.Drained, error) {
	return post[api.Drained](ctx, c, "/api/gpu/undrain", r)
}

// Check has a device checked, and returns when that is done: after some seconds, or after
// minutes for a long check. The client's timeout does not apply.
func (c *Client) Check(ctx context.Context, r api.CheckRequest) (api.Check, error) {
	patient := *c
	patient.timeout = 0
	return post[api.Check](ctx, &patient, "/api/gpu/check", r)
}
