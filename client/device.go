package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/api"
)

// In all methods gpu is an index or a UUID.

// Status is one device as it stands; an empty gpu means the first.
func (c *Client) Status(ctx context.Context, gpu string) (api.Status, error) {
	return get[api.Status](ctx, c, "/api/gpu/status", ofGPU(gpu))
}

// StatusAll is every device, and how much of the machine is in use.
func (c *Client) StatusAll(ctx context.Context) (api.StatusAll, error) {
	return get[api.StatusAll](ctx, c, "/api/gpu/status/all", nil)
}

// Metrics is the newest sample of a device; an empty gpu means one of each.
func (c *Client) Metrics(ctx context.Context, gpu string) (api.Samples, error) {
	return get[api.Samples](ctx, c, "/api/gpu/metrics", ofGPU(gpu))
}

// HistoryQuery selects samples of one device. The zero value selects all that
// are kept of the first.
type HistoryQuery struct {
	GPU   string    // empty: the first device
	Since time.Time // only later ones; zero: from the oldest that is kept
	Limit int       // only the newest so many; zero: all
}

// History is the samples of a device that are kept, oldest first.
func (c *Client) History(ctx context.Context, q HistoryQuery) (api.Samples, error) {
	query := ofGPU(q.GPU)
	if !q.Since.IsZero() {
		query.Set("since", q.Since.Format(time.RFC3339Nano))
	}
	if q.Limit != 0 {
		query.Set("limit", strconv.Itoa(q.Limit))
	}
	return get[api.Samples](ctx, c, "/api/gpu/metrics/history", query)
}

// Trend is what the temperature of a device did in the window that ends now;
// a window of zero means the daemon's default.
func (c *Client) Trend(ctx context.Context, gpu string, window time.Duration) (api.Trend, error) {
	query := ofGPU(gpu)
	if window != 0 {
		query.Set("minutes", strconv.FormatFloat(window.Minutes(), 'g', -1, 64))
	}
	return get[api.Trend](ctx, c, "/api/gpu/temperature/trend", query)
}

// Available is what can be leased now, per device.
func (c *Client) Available(ctx context.Context) (api.Available, error) {
	return get[api.Available](ctx, c, "/api/gpu/memory/available", nil)
}

// Throttle says how hard a device may be worked; an empty gpu means the first.
func (c *Client) Throttle(ctx context.Context, gpu string) (api.Throttle, error) {
	return get[api.Throttle](ctx, c, "/api/gpu/throttle/status", ofGPU(gpu))
}

// StartMonitoring starts the sampling loop, if it does not run.
func (c *Client) StartMonitoring(ctx context.Context) (api.Monitoring, error) {
	return call[api.Monitoring](ctx, c, http.MethodPost, "/api/gpu/monitoring/start", nil, nil)
}

// StopMonitoring stops the sampling loop, if it runs.
func (c *Client) StopMonitoring(ctx context.Context) (api.Monitoring, error) {
	return call[api.Monitoring](ctx, c, http.MethodPost, "/api/gpu/monitoring/stop", nil, nil)
}

func ofGPU(gpu string) url.Values {
	query := url.Values{}
	if gpu != "" {
		query.Set("gpu", gpu)
	}
	return query
}
