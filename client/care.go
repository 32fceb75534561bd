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
