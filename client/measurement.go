package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/berth-gpu/berth/api"
)

const measurementsPath = "/api/measurements"

// Measurements returns what earlier runs used, by user and name.
func (c *Client) Measurements(ctx context.Context) (api.Measurements, error) {
	return whole(ctx, c, measurementsPath, func(page api.Measurements) string { return page.Next },
		func(all *api.Measurements, page api.Measurements) {
			all.Measurements, all.More = append(all.Measurements, page.Measurements...), page.More
		})
}

// Measure reports what a run used, so that the daemon can give the next run of
// that name as much.
func (c *Client) Measure(ctx context.Context, m api.Measurement) error {
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("POST %s: write the request: %w", measurementsPath, err)
	}
	return c.exchange(ctx, http.MethodPost, measurementsPath, nil, text, check)
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
