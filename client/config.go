package client

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/berth-gpu/berth/api"
)

// Config is the gpu section of the configuration in force, as the JSON object
// that SetConfig takes. It is not decoded, so that fields this client does not
// know come back unharmed.
func (c *Client) Config(ctx context.Context) (json.RawMessage, error) {
	return get[json.RawMessage](ctx, c, "/api/gpu/config", nil)
}

// SetConfig changes any part of the section and returns it as it then stands.
// What is absent stays, and null goes back to what the configuration file says.
// The daemon takes all of it or none: an [*api.Problem] lists every field that
// is wrong.
func (c *Client) SetConfig(ctx context.Context, part json.RawMessage) (json.RawMessage, error) {
	return call[json.RawMessage](ctx, c, http.MethodPut, "/api/gpu/config", nil, part)
}

// ConfigFields lists every field with its value and where the value comes from.
func (c *Client) ConfigFields(ctx context.Context) (api.ConfigFields, error) {
	return get[api.ConfigFields](ctx, c, "/api/gpu/config/sources", nil)
}
