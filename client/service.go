package client

import (
	"context"
	"net/url"

	"github.com/berth-gpu/berth/api"
)

// ReportOperations reports the work that a service has done since its last
// report, for the metrics of the daemon.
func (c *Client) ReportOperations(ctx context.Context, service string, o api.Operations) (api.Counted, error) {
	return post[api.Counted](ctx, c, "/api/services/"+url.PathEscape(service)+"/operations", o)
}
