package desk

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

// Running holds the results of the runs of a plan.
type Running struct {
	Plan *api.Plan // nil if the caller brought the plan
	Runs []Run     // in the order of the plan
}

// Run is the result of one run. A run that was refused has no reason and no problem yet:
// the door writes them, in its own words.
type Run struct {
	api.RunningRun
	Refusal *Refusal // nil if the run was not refused
}

// planOrder is a request for runs of a plan while the desk works on it.
type planOrder struct {
	api.PlanRun
	until  time.Time       // end of the wait
	wanted map[string]bool // names of the runs; nil means all
}

// Run leases what the runs of a plan need, one after the other. Each run gets a lease of
// its own, whole or not at all, whatever the other runs get. If no run gets anything, Run
// returns the first refusal.
func (d *Plans) Run(ctx context.Context, by Caller, asked api.PlanRun) (Running, error) {
	o := planOrder{PlanRun: asked, until: time.Now()}
	var result Running
	if err := o.check(); err != nil {
		return result, err
	}
	if o.Plan == nil {
		made, err := d.Make(by, o.PlanRequest)
		if err != nil {
			return result, err
		}
		result.Plan, o.Plan = made, made
	}
	if err := o.checkLengths(); err != nil {
		return result, err
	}
	if err := o.checkRuns(); err != nil {
		return result, err
	}
	result.Runs = d.placeRuns(ctx, &by, &o)
	if ctx.Err() != nil { // nobody will hear of the leases
		for i := range result.Runs {
			d.abandonRun(&result.Runs[i])
		}
	}
	if refusal := onlyRefusals(result.Runs); refusal != nil {
		return result, refusal
	}
	return result, nil
}

const (
	maxPlanWait = 30 * 24 * time.Hour // as long as any request may wait
	maxPlanRuns = 10_000              // as many as a file may have
)

// check refuses a malformed request. It sets when the wait ends, and which runs are
// wanted.
func (o *planOrder) check() error {
	switch pipelines := len(o.Pipelines) > 0 || o.Text != ""; {
	case o.Plan != nil && pipelines:
		return Refuse(Invalid, "invalid_request", "Give a plan, or pipelines to make one of, and not both.")
	case o.Plan == nil && !pipelines:
		return Refuse(Invalid, "invalid_request", "There is nothing to run: give a plan as /api/plans answered it, or pipelines to make one of.")
	}
	var errs lease.FieldErrors
	seconds := o.Timeout.Or(0)
	if math.IsNaN(seconds) || seconds < 0 || seconds > maxPlanWait.Seconds() {
		errs = append(errs, lease.FieldError{Field: "timeout_seconds", Detail: fmt.Sprintf("is not a number from 0 to %.0f", maxPlanWait.Seconds())})
	}
	if rungs := []string{"", "auto", "mps", "framework", "watchdog", "none"}; !slices.Contains(rungs, o.Enforce) {
		errs = append(errs, lease.FieldError{Field: "enforce", Detail: "is none of " + strings.Join(rungs[1:], ", ")})
	}
	if errs != nil {
		return wrongFields(errs)
	}
	o.until = o.until.Add(time.Duration(seconds * float64(time.Second)))
	if o.Runs != nil {
		o.wanted = map[string]bool{}
	}
	for _, name := range o.Runs {
		o.wanted[name] = true
	}
	return nil
}

func (o *planOrder) wants(run string) bool { return o.wanted == nil || o.wanted[run] }

// checkRuns refuses runs that are not in the plan or have no name, and more runs than can
// be meant.
func (o *planOrder) checkRuns() error {
	names, wanted := map[string]bool{}, 0
	for i := range o.Plan.Pipelines {
		for _, run := range o.Plan.Pipelines[i].Runs {
			if strings.TrimSpace(run.Name) == "" {
				return Refuse(Invalid, "invalid_request",
					"A run of pipeline %q has no name. Post the plan as /api/plans answered it. Nothing was started.", o.Plan.Pipelines[i].Name)
			}
			names[run.Name] = true
			if o.wants(run.Name) {
				wanted++
			}
		}
	}
	for _, name := range o.Runs {
		if !names[name] {
			return Refuse(Invalid, "unknown_run", "There is no run %q in the plan. Nothing was started.", name)
		}
	}
	switch {
	case wanted == 0:
		return Refuse(Invalid, "unknown_run", "No run is asked for. Post the plan as /api/plans answered it.")
	case wanted > maxPlanRuns:
		return Refuse(Invalid, "invalid_request", "%d runs are wanted, and more than %d are not started at once.", wanted, maxPlanRuns)
	case o.ID != "" && wanted > 1:
		return Refuse(Invalid, "invalid_request", "An id is for one lease, and %d runs are wanted. Nothing was started.", wanted)
	}
	return nil
}

// placeRuns leases for every wanted run. The runs of a pipeline are all alike, so once
// one is refused, it refuses the rest too: there are never more leases than slots.
func (d *Plans) placeRuns(ctx context.Context, by *Caller, o *planOrder) []Run {
	runs := []Run{}
	for i := range o.Plan.Pipelines {
		p := &o.Plan.Pipelines[i]
		var refusal *Refusal
		for j := range p.Runs {
			planned := &p.Runs[j]
			if !o.wants(planned.Name) {
				continue
			}
			run := Run{RunningRun: api.RunningRun{Name: planned.Name, Pipeline: p.Name, Placement: api.PlacedNowhere, Planned: planned.GPU}}
			if p.Memory != 0 || p.Slots != 0 {
				if refusal == nil {
					refusal = d.placeRun(ctx, by, o, p, &run)
				}
				if refusal != nil {
					run.Placement, run.Refusal = api.PlaceRefused, refusal
				}
			}
			runs = append(runs, run)
		}
	}
	return runs
}

// placeRun leases for one run: on the device of the plan if that has room, else where
// there is room.
func (d *Plans) placeRun(ctx context.Context, by *Caller, asked *planOrder, p *api.PlannedPipeline, run *Run) *Refusal {
	w := d.runWish(asked, p, run)
	l, err := d.leases.acquire(ctx, by, &w)
	if err != nil {
		return Refused(err)
	}
	run.Lease, run.Placement = &l, api.PlacedAsPlanned
	uuid := l.Parts[0].GPU
	how := "as planned"
	if uuid != run.Planned {
		run.Placement, run.Reason = api.PlacedElsewhere, d.whyElsewhere(by, w, run.Planned)
		how = "and not as planned: " + run.Reason
	}
	data := map[string]any{"run": run.Name, "placement": run.Placement, "planned_gpu": run.Planned}
	d.tell(by, gpu.Event{Lease: l.ID, GPU: uuid, Data: data}, run.Name, "A run", "%s runs on %s %s", d.devices.label(uuid), how)
	return nil
}

// abandonRun gives back the lease of a run whose caller has left, unless it stood before.
func (d *Plans) abandonRun(run *Run) {
	if run.Lease == nil || run.Lease.Stood {
		return
	}
	if err := d.leases.giveBack(run.Lease, withdrawn(run.Lease)); err != nil {
		run.Lease, run.Placement, run.Reason, run.Refusal = nil, api.PlaceRefused, "", Refused(err)
	}
}

// runWish returns the wish for the lease of a run. The holder has the name of the
// pipeline, whatever its process is called, because the next run is like this one.
func (d *Plans) runWish(asked *planOrder, p *api.PlannedPipeline, run *Run) wish {
	id := asked.ID
	if id == "" {
		id = madeUp(strings.TrimSpace(run.Name), 8)
	}
	w := wish{as: p.Name, preferred: run.Planned, LeaseRequest: api.LeaseRequest{
		ID: id, Service: p.Service, Name: p.Name,
		GPUs: 1, Memory: p.Memory, Slots: gpu.Some(p.Slots), Policy: p.Policy, Priority: p.Priority,
		Binding: "process", PID: asked.PID, Enforce: asked.Enforce, Timeout: gpu.Some(max(time.Until(asked.until).Seconds(), 0)),
	}}
	if strings.ContainsAny(p.GPU, "=~<>!,") {
		w.Where = p.GPU
	} else {
		w.GPU = gpu.Ref(p.GPU)
	}
	if len(p.Candidates) < len(d.monitor.Readings()) {
		w.only = p.Candidates
	}
	return w
}

// whyElsewhere returns why the lease is not on the device of the plan. It looks after the
// grant, so the reason may be over by now.
func (d *Plans) whyElsewhere(by *Caller, w wish, planned string) string {
	switch {
	case planned == "":
		return "the plan names no device"
	case d.ledger.Sum(planned).Device.UUID == "":
		return fmt.Sprintf("device %s is not there any more", planned)
	}
	w.ID += "-there"
	w.GPU, w.only = gpu.Ref(planned), nil
	if r, err := d.leases.resolve(by, &w); err == nil {
		if e, err := d.ledger.Explain(r.Request); err == nil && e.Refusal != nil {
			for _, reason := range e.Refusal.Reasons {
				if reason.GPU == planned {
					return fmt.Sprintf("%s: %s", d.devices.label(planned), reason.Text)
				}
			}
		}
	}
	return d.devices.label(planned) + " had no room at that moment"
}

// onlyRefusals returns the first refusal if every run was refused, and nil otherwise.
func onlyRefusals(runs []Run) *Refusal {
	for _, run := range runs {
		if run.Refusal == nil {
			return nil
		}
	}
	return runs[0].Refusal // there is a run: a request without runs was refused
}

// checkLengths refuses fields that are too long in a plan that the caller brought, and in
// the names of the runs.
func (a *planOrder) checkLengths() error {
	var l lengths
	l.text(a.ID, maxPlanName, "id")
	l.list(len(a.Runs), maxPlanRuns, "runs")
	for i, name := range a.Runs {
		l.text(name, maxPlanName, "runs[%d]", i)
	}
	for i := range a.Plan.Pipelines {
		p := &a.Plan.Pipelines[i]
		l.text(p.Name, maxPlanName, "plan.pipelines[%d].name", i)
		l.text(p.Service, maxPlanName, "plan.pipelines[%d].service", i)
		l.text(p.Policy, maxPlanName, "plan.pipelines[%d].policy", i)
		l.text(p.GPU, maxPlanWish, "plan.pipelines[%d].gpu", i)
		l.list(len(p.Candidates), maxLibraries, "plan.pipelines[%d].candidates", i)
		for j, uuid := range p.Candidates {
			l.text(uuid, maxPlanName, "plan.pipelines[%d].candidates[%d]", i, j)
		}
		for j := range p.Runs {
			l.text(p.Runs[j].Name, maxPlanName, "plan.pipelines[%d].runs[%d].name", i, j)
			l.text(p.Runs[j].GPU, maxPlanName, "plan.pipelines[%d].runs[%d].gpu", i, j)
		}
	}
	return l.err()
}
