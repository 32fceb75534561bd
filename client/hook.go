package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/berth-gpu/berth/api"
)

// Hooks asks about the hooks of a daemon, where it sends events.
type Hooks struct{ c *Client }

// Hooks returns what asks about hooks.
func (c *Client) Hooks() Hooks { return Hooks{c} }

// List returns the hooks, and what came of them.
func (h Hooks) List(ctx context.Context) (api.Hooks, error) {
	return call[api.Hooks](ctx, h.c, http.MethodGet, "/api/hooks", nil, nil)
}

// Test sends a test to a hook, and returns what came of it. The time limit of the
// client does not count: that of the hook does.
func (h Hooks) Test(ctx context.Context, name string) (api.HookTest, error) {
	return call[api.HookTest](ctx, h.c.unhurried(), http.MethodPost, "/api/hooks/"+url.PathEscape(name)+"/test", nil, nil)
}
