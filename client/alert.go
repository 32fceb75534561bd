package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/berth-gpu/berth/api"
)

// Alerts returns the alerts that are pending or firing.
func (c *Client) Alerts(ctx context.Context) (api.Alerts, error) {
	return get[api.Alerts](ctx, c, "/api/alerts", nil)
}

// Acknowledge says that somebody takes care of the alert with this fingerprint. Hooks get
// nothing more about it until the time is over or the alert is resolved.
func (c *Client) Acknowledge(ctx context.Context, fingerprint string, r api.AcknowledgeRequest) (api.Alert, error) {
	return post[api.Alert](ctx, c, acknowledgement(fingerprint), r)
}

// Unacknowledge takes an acknowledgement back.
func (c *Client) Unacknowledge(ctx context.Context, fingerprint string) (api.Alert, error) {
	return call[api.Alert](ctx, c, http.MethodDelete, acknowledgement(fingerprint), nil, nil)
}

func acknowledgement(fingerprint string) string {
	return "/api/alerts/" + url.PathEscape(fingerprint) + "/acknowledge"
}

// Hooks asks a daemon about its hooks, to which it sends events.
type Hooks struct{ c *Client }

// Hooks returns a Hooks for the daemon of the client.
func (c *Client) Hooks() Hooks { return Hooks{c} }

// List returns the hooks with their last deliveries.
func (h Hooks) List(ctx context.Context) (api.Hooks, error) {
	return get[api.Hooks](ctx, h.c, "/api/hooks", nil)
}

// Test sends a test to a hook, and returns the result. The timeout of the hook applies
// instead of the client's.
func (h Hooks) Test(ctx context.Context, name string) (api.HookTest, error) {
	return call[api.HookTest](ctx, h.c.unhurried(), http.MethodPost, "/api/hooks/"+url.PathEscape(name)+"/test", nil, nil)
}
