package client

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/berth-gpu/berth/api"
)

// Config returns the gpu section of the present configuration, as the JSON
// object that SetConfig takes. It does not decode the object, so that SetConfig
// can send back fields that this client does not know.
func (c *Client) Config(ctx context.Context) (json.RawMessage, error) {
	return get[json.RawMessage](ctx, c, "/api/gpu/config", nil)
}

// SetConfig changes any part of the section and returns the changed section. An
// absent field stays, and null returns a field to what the configuration file
// says. The daemon applies all of it or nothing: an [*api.Problem] lists every
// field that is wrong.
func (c *Client) SetConfig(ctx context.Context, part json.RawMessage) (json.RawMessage, error) {
	return call[json.RawMessage](ctx, c, http.MethodPut, "/api/gpu/config", nil, part)
}

// ConfigFields lists every field with its value and where the value comes from.
func (c *Client) ConfigFields(ctx context.Context) (api.ConfigFields, error) {
	return get[api.ConfigFields](ctx, c, "/api/gpu/config/sources", nil)
}
