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

// Reach looks whether there is a daemon: the error is a [*NoDaemonError] if there is none.
// On a socket it connects, and the next request uses that connection, so that the question
// takes no time. Anywhere else it does the same as Ping.
func (c *Client) Reach(ctx context.Context) error {
	if c.reach == nil {
		return c.Ping(ctx)
	}
	limited, cancel := c.limit(ctx)
	defer cancel()
	return c.explain(ctx, "connect to", "the daemon", c.reach(limited))
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

// Config returns the part of the present configuration that can change at run time,
// without hooks, as the JSON object that SetConfig takes. It does not decode the object,
// so that SetConfig can send back fields that this client does not know.
func (c *Client) Config(ctx context.Context) (json.RawMessage, error) {
	return get[json.RawMessage](ctx, c, "/api/gpu/config", nil)
}

// SetConfig changes any part of the configuration and returns the result. An absent field
// stays, and null returns a field to what the configuration file says. The daemon applies
// all of the change or nothing: an [*api.Problem] lists every field that is wrong.
func (c *Client) SetConfig(ctx context.Context, part json.RawMessage) (json.RawMessage, error) {
	return call[json.RawMessage](ctx, c, http.MethodPut, "/api/gpu/config", nil, part)
}

// ConfigFields lists every field with its value and where the value comes from.
func (c *Client) ConfigFields(ctx context.Context) (api.ConfigFields, error) {
	return get[api.ConfigFields](ctx, c, "/api/gpu/config/sources", nil)
}

// ReloadConfig makes the daemon read its configuration file again, and returns
// what changed and which settings of the file a stronger source overrides. A file
// with a mistake changes nothing: an [*api.Problem] names the lines.
func (c *Client) ReloadConfig(ctx context.Context) (api.ConfigReload, error) {
	return call[api.ConfigReload](ctx, c, http.MethodPost, "/api/gpu/config/reload", nil, nil)
}
