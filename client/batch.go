package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
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
	return send[api.Batch](ctx, c, http.MethodPut, batchesPath+"/"+url.PathEscape(b.ID), nil, b)
}

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

const plansPath = "/api/plans"

// Plan compiles pipelines against the devices as they are now, and starts nothing. For
// pipelines that cannot work, the error is an [*api.Problem] with the code plan_refused
// and every reason in its Fields.
func (c *Client) Plan(ctx context.Context, r api.PlanRequest) (api.Plan, error) {
	return post[api.Plan](ctx, c, plansPath, r)
}

// RunPlan leases what runs of a plan need, each on the device of the plan or,
// if that device has no room any more, on another one; the answer says which.
// The leases end with the process r.PID, or else with this process. RunPlan
// waits as long as r.Timeout says, by default not at all; Options.Timeout does
// not limit the wait. If no run gets a lease, the error is an [*api.Problem].
//
// If the daemon goes away while a request with an ID waits, RunPlan makes it again, as
// [Client.Acquire] does.
func (c *Client) RunPlan(ctx context.Context, r api.PlanRun) (api.PlanRunning, error) {
	patient := c.patient(r.Timeout.Or(0))
	if r.ID == "" { // the daemon makes up ids, under which nobody can ask again
		return post[api.PlanRunning](ctx, patient, plansPath+"/run", r)
	}
	return persist(ctx, patient, r.Timeout, func(timeout gpu.Opt[float64], query url.Values) (api.PlanRunning, error) {
		r.Timeout = timeout
		return send[api.PlanRunning](ctx, patient, http.MethodPost, plansPath+"/run", query, r)
	})
}

// ReportOperations reports the work that a service has done since its last
// report, for the metrics of the daemon.
func (c *Client) ReportOperations(ctx context.Context, service string, o api.Operations) (api.Counted, error) {
	return post[api.Counted](ctx, c, "/api/services/"+url.PathEscape(service)+"/operations", o)
}
