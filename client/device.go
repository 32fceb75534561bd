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

// Status returns the state of one device; an empty gpu means the first.
func (c *Client) Status(ctx context.Context, gpu string) (api.Status, error) {
	return get[api.Status](ctx, c, "/api/gpu/status", ofGPU(gpu))
}

// StatusAll returns every device, and how much of the machine is in use.
func (c *Client) StatusAll(ctx context.Context) (api.StatusAll, error) {
	return get[api.StatusAll](ctx, c, "/api/gpu/status/all", nil)
}

// StatusWithLeases returns the state of one device with the leases on it; an
// empty gpu means the first.
func (c *Client) StatusWithLeases(ctx context.Context, gpu string) (api.Status, error) {
	query := ofGPU(gpu)
	query.Set("leases", "true")
	return get[api.Status](ctx, c, "/api/gpu/status", query)
}

// StatusAllWithLeases returns every device with the leases on it, and how much
// of the machine is in use.
func (c *Client) StatusAllWithLeases(ctx context.Context) (api.StatusAll, error) {
	return get[api.StatusAll](ctx, c, "/api/gpu/status/all", url.Values{"leases": {"true"}})
}

// StatusAllWithCurves does what StatusAllWithLeases does, and adds the load and the
// temperature of each device in the last minutes, as points averages. An older daemon
// leaves them out.
func (c *Client) StatusAllWithCurves(ctx context.Context, points int) (api.StatusAll, error) {
	return get[api.StatusAll](ctx, c, "/api/gpu/status/all", url.Values{"leases": {"true"}, "curves": {strconv.Itoa(points)}})
}

// Metrics returns the newest sample of a device; an empty gpu means one of each.
func (c *Client) Metrics(ctx context.Context, gpu string) (api.Samples, error) {
	return get[api.Samples](ctx, c, "/api/gpu/metrics", ofGPU(gpu))
}

// HistoryQuery selects samples of one device. The zero value selects all
// samples of the first device.
type HistoryQuery struct {
	GPU   string    // empty means the first device
	Since time.Time // only later samples; zero means all
	Limit int       // maximum number of samples, the newest ones; zero means all
}

// History returns the samples of a device that the daemon keeps, oldest first.
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

// Trend returns how the temperature of a device changed in the window that ends
// now. A window of zero means the daemon's default.
func (c *Client) Trend(ctx context.Context, gpu string, window time.Duration) (api.Trend, error) {
	query := ofGPU(gpu)
	if window != 0 {
		query.Set("minutes", strconv.FormatFloat(window.Minutes(), 'g', -1, 64))
	}
	return get[api.Trend](ctx, c, "/api/gpu/temperature/trend", query)
}

// Available returns how much memory the daemon can lease now, per device.
func (c *Client) Available(ctx context.Context) (api.Available, error) {
	return get[api.Available](ctx, c, "/api/gpu/memory/available", nil)
}

// Throttle returns how fast work on a device may run; an empty gpu means the first.
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

// Drain takes a device out of use: leases there go on, and the daemon grants no
// new ones.
func (c *Client) Drain(ctx context.Context, r api.DrainRequest) (api.Drained, error) {
	return post[api.Drained](ctx, c, "/api/gpu/drain", r)
}

// Undrain lets a drained device be used again.
func (c *Client) Undrain(ctx context.Context, r api.UndrainRequest) (api.Drained, error) {
	return post[api.Drained](ctx, c, "/api/gpu/undrain", r)
}

// Check has a device checked, and returns when that is done: after some seconds, or after
// minutes for a long check. The client's timeout does not apply.
func (c *Client) Check(ctx context.Context, r api.CheckRequest) (api.Check, error) {
	return post[api.Check](ctx, c.unhurried(), "/api/gpu/check", r)
}

// Energy returns how much energy devices used, and for whom.
func (c *Client) Energy(ctx context.Context) (api.Energy, error) {
	return get[api.Energy](ctx, c, "/api/energy", nil)
}

// Orphans returns the processes that use devices without a lease: those whose
// lease has ended, and those that never had one.
func (c *Client) Orphans(ctx context.Context) (api.Strays, error) {
	return whole(ctx, c, "/api/orphans", func(page api.Strays) string { return page.Next },
		func(all *api.Strays, page api.Strays) {
			all.Orphans, all.Foreign, all.More = append(all.Orphans, page.Orphans...), append(all.Foreign, page.Foreign...), page.More
		})
}
