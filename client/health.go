package client

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/berth-gpu/berth/api"
)

// Ping reports whether a daemon is there and answers.
func (c *Client) Ping(ctx context.Context) error {
	return c.exchange(ctx, http.MethodGet, "/healthz", nil, nil, check)
}

// Ready reports whether the daemon can do its work. If it cannot, the error is
// an [*api.Problem] that says why.
func (c *Client) Ready(ctx context.Context) (api.Ready, error) {
	return get[api.Ready](ctx, c, "/readyz", nil)
}

// OpenAPI returns the daemon's description of its routes.
func (c *Client) OpenAPI(ctx context.Context) (json.RawMessage, error) {
	return get[json.RawMessage](ctx, c, "/openapi.json", nil)
}

// Prometheus returns the page that Prometheus scrapes.
func (c *Client) Prometheus(ctx context.Context) ([]byte, error) {
	var page []byte
	err := c.exchange(ctx, http.MethodGet, "/metrics", nil, nil, func(resp *http.Response) error {
		err := check(resp)
		if err == nil {
			page, err = io.ReadAll(resp.Body)
		}
		return err
	})
	return page, err
}
