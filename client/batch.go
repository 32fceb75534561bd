package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/berth-gpu/berth/api"
)

const batchesPath = "/api/batches"

// Batches returns the progress of the batches that run, and of those that ended
// a moment ago.
func (c *Client) Batches(ctx context.Context) (api.Batches, error) {
	return whole(ctx, c, batchesPath, func(page api.Batches) string { return page.Next },
		func(all *api.Batches, page api.Batches) {
			all.Batches, all.More = append(all.Batches, page.Batches...), page.More
		})
}

// ReportBatch reports the progress of a batch. Its runner calls it about once a
// second.
func (c *Client) ReportBatch(ctx context.Context, b api.Batch) (api.Batch, error) {
	path := batchesPath + "/" + url.PathEscape(b.ID)
	text, err := json.Marshal(b)
	if err != nil {
		return api.Batch{}, fmt.Errorf("PUT %s: write the request: %w", path, err)
	}
	return call[api.Batch](ctx, c, http.MethodPut, path, nil, text)
}
