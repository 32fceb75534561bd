package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/berth-gpu/berth/api"
)

// Hooks asks a daemon about its hooks, to which it sends events.
type Hooks struct{ c *Client }

// Hooks returns a Hooks for the daemon of the client.
func (c *Client) Hooks() Hooks { return Hooks{c} }

// List returns the hooks with their last deliveries.
func (h Hooks) List(ctx context.Context) (api.Hooks, error) {
	return call[api.Hooks](ctx, h.c, http.MethodGet, "/api/hooks", nil, nil)
}

// Test sends a test to a hook, and returns the result. The timeout of the hook applies
// instead of the client's.
func (h Hooks) Test(ctx context.Context, name string) (api.HookTest, error) {
	return call[api.HookTest](ctx, h.c.unhurried(), http.MethodPost, "/api/hooks/"+url.PathEscape(name)+"/test", nil, nil)
}
