package client

import (
	"context"

	"github.com/berth-gpu/berth/api"
)

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
func (c *Client) RunPlan(ctx context.Context, r api.PlanRun) (api.PlanRunning, error) {
	return post[api.PlanRunning](ctx, c.patient(r.Timeout.Or(0)), plansPath+"/run", r)
}
