package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/berth-gpu/berth/api"
)

// MinderOrder asks for what to run. Only the minder of the run gets it.
func (c *Client) MinderOrder(ctx context.Context, run string) (api.MinderOrder, error) {
	const path = "/api/jobs/minder"
	text, err := json.Marshal(api.MinderRequest{Run: run, Version: api.MinderVersion})
	if err != nil {
		return api.MinderOrder{}, fmt.Errorf("POST %s: write the request: %w", path, err)
	}
	return call[api.MinderOrder](ctx, c, http.MethodPost, path, nil, text)
}
