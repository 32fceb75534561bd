package httpapi

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/ledger"
)

// runPlan leases what runs need, one after the other. A run is whole by itself:
// what others of the same call get or do not get does not change its lease.
func (s *server) runPlan(ctx context.Context, in *planBody) (*answer[api.PlanRunning], error) {
	asked, err := in.run()
	if err != nil {
		return nil, err
	}
	var result api.PlanRunning
	if asked.Plan == nil {
		if result.Plan, err = s.plan(ctx, asked.PlanRequest); err != nil {
			return nil, err
		}
		asked.Plan = result.Plan
	}
	if err := asked.checkLengths(); err != nil {
		return nil, err
	}
	if err := asked.known(); err != nil {
		return nil, err
	}
	result.Runs = s.placeRuns(ctx, &asked)
	if ctx.Err() != nil { // nobody will hear of them
		s.giveBack(result.Runs)
	}
	if refusal := onlyRefusals(result.Runs); refusal != nil {
		return nil, refusal
	}
	return ok(result)
}

// runAsked is what is asked for.
type runAsked struct {
	api.PlanRun
	until  time.Time       // how long it may take
	wanted map[string]bool // the runs; nil: all
}

// run reads the body. A plan is read generously: it may be cut short, and may
// come from a newer daemon.
func (b *planBody) run() (runAsked, error) {
	asked := runAsked{until: time.Now()}
	if media, _, _ := mime.ParseMediaType(b.ContentType); media != "application/json" {
		return asked, problem(http.StatusUnsupportedMediaType, "unsupported_media_type", "The body must be JSON: send Content-Type: application/json.")
	}
	body := struct {
		*api.PlanRun
		Plan json.RawMessage `json:"plan"`
	}{PlanRun: &asked.PlanRun}
	if err := strictly(b.RawBody, &body); err != nil {
		return asked, err
	}
	if len(body.Plan) > 0 {
		if err := json.Unmarshal(body.Plan, &asked.Plan); err != nil {
			return asked, problem(http.StatusBadRequest, "malformed_body", "The plan is not one that /api/plans answered: %v.", err)
		}
	}
	switch pipelines := len(asked.Pipelines) > 0 || asked.Text != ""; {
	case asked.Plan != nil && pipelines:
		return asked, problem(http.StatusUnprocessableEntity, "invalid_request", "Give a plan, or pipelines to make one of, and not both.")
	case asked.Plan == nil && !pipelines:
		return asked, problem(http.StatusUnprocessableEntity, "invalid_request",
			"There is nothing to run: give a plan as /api/plans answered it, or pipelines to make one of.")
	}
	if asked.Runs != nil {
		asked.wanted = map[string]bool{}
	}
	for _, name := range asked.Runs {
		asked.wanted[name] = true
	}
	return asked, asked.limits()
}

const (
	maxPlanWait = 30 * 24 * time.Hour // as long as any request may wait
	maxPlanRuns = 10_000              // as many as a file may have
)

// limits checks what a schema would, and sets the time.
func (a *runAsked) limits() error {
	var errs lease.FieldErrors
	seconds := a.Timeout.Or(0)
	if math.IsNaN(seconds) || seconds < 0 || seconds > maxPlanWait.Seconds() {
		errs = append(errs, lease.FieldError{Field: "timeout_seconds", Detail: fmt.Sprintf("is not a number from 0 to %.0f", maxPlanWait.Seconds())})
	}
	if rungs := []string{"", "auto", "mps", "framework", "watchdog", "none"}; !slices.Contains(rungs, a.Enforce) {
		errs = append(errs, lease.FieldError{Field: "enforce", Detail: "is none of" + strings.Join(rungs, " ")})
	}
	if errs != nil {
		return wrongFields(errs)
	}
	a.until = a.until.Add(time.Duration(seconds * float64(time.Second)))
	return nil
}

func (a *runAsked) wants(run string) bool { return a.wanted == nil || a.wanted[run] }

// known refuses runs that are not in the plan or have no name, and more than can
// be meant.
func (a *runAsked) known() error {
	names, wanted := map[string]bool{}, 0
	for i := range a.Plan.Pipelines {
		for _, run := range a.Plan.Pipelines[i].Runs {
			if strings.TrimSpace(run.Name) == "" {
				return problem(http.StatusUnprocessableEntity, "invalid_request",
					"A run of pipeline %q has no name. Post the plan as /api/plans answered it. Nothing was started.", a.Plan.Pipelines[i].Name)
			}
			names[run.Name] = true
			if a.wants(run.Name) {
				wanted++
			}
		}
	}
	for _, name := range a.Runs {
		if !names[name] {
			return problem(http.StatusUnprocessableEntity, "unknown_run", "There is no run %q in the plan. Nothing was started.", name)
		}
	}
	switch {
	case wanted == 0:
		return problem(http.StatusUnprocessableEntity, "unknown_run", "No run is asked for. Post the plan as /api/plans answered it.")
	case wanted > maxPlanRuns:
		return problem(http.StatusUnprocessableEntity, "invalid_request", "%d runs are wanted, and more than %d are not started at once.", wanted, maxPlanRuns)
	case a.ID != "" && wanted > 1:
		return problem(http.StatusUnprocessableEntity, "invalid_request", "An id is for one lease, and %d runs are wanted. Nothing was started.", wanted)
	}
	return nil
}

// placeRuns leases for every run that is wanted. The runs of a pipeline are all
// alike, so once one of them is refused the others are too: there are never
// more than there are slots.
func (s *server) placeRuns(ctx context.Context, asked *runAsked) []api.RunningRun {
	runs := []api.RunningRun{}
	for i := range asked.Plan.Pipelines {
		p := &asked.Plan.Pipelines[i]
		var refusal *api.Problem
		for j := range p.Runs {
			planned := &p.Runs[j]
			if !asked.wants(planned.Name) {
				continue
			}
			run := api.RunningRun{Name: planned.Name, Pipeline: p.Name, Placement: api.PlacedNowhere, Planned: planned.GPU}
			if p.Memory != 0 || p.Slots != 0 {
				if refusal == nil {
					refusal = s.placeRun(ctx, asked, p, &run)
				}
				if refusal != nil {
					run.Placement, run.Reason, run.Problem = api.PlaceRefused, refusal.Detail, refusal
				}
			}
			runs = append(runs, run)
		}
	}
	return runs
}

// placeRun leases for one run: on the device of the plan if that has room, else
// where it has.
func (s *server) placeRun(ctx context.Context, asked *runAsked, p *api.PlannedPipeline, run *api.RunningRun) *api.Problem {
	request, err := s.runRequest(ctx, asked, p, run)
	if err != nil {
		return asProblemOf(err)
	}
	granted, err := outOfTurn(ctx, func() (*lease.Lease, error) { return s.Ledger.Acquire(ctx, request) })
	if err != nil {
		return asProblemOf(refused(err))
	}
	wire := leaseOf(ledger.Held{Lease: granted})
	if asked.Enforce != "" {
		if wire, err = s.outfit(ctx, granted); err != nil {
			return asProblemOf(err)
		}
	}
	run.Lease, run.Placement = &wire, api.PlacedAsPlanned
	uuid := granted.Parts[0].GPU
	how := "as planned"
	if uuid != run.Planned {
		run.Placement, run.Reason = api.PlacedElsewhere, s.whyElsewhere(request, run.Planned)
		how = "and not as planned: " + run.Reason
	}
	data := map[string]any{"run": run.Name, "placement": run.Placement, "planned_gpu": run.Planned}
	s.tell(ctx, gpu.Event{Lease: granted.ID, GPU: uuid, Data: data}, run.Name, "A run", "%s runs on %s %s", s.label(uuid), how)
	return nil
}

// runRequest is the request for the lease of a run.
func (s *server) runRequest(ctx context.Context, asked *runAsked, p *api.PlannedPipeline, run *api.RunningRun) (lease.Request, error) {
	id := asked.ID
	if id == "" {
		id = strings.TrimSpace(run.Name) + "-" + strings.ToLower(rand.Text()[:8])
	}
	b := api.LeaseRequest{
		ID: id, Service: p.Service, Name: p.Name,
		GPUs: 1, Memory: p.Memory, Slots: gpu.Some(p.Slots), Policy: p.Policy, Priority: p.Priority,
		Binding: "process", PID: asked.PID, Enforce: asked.Enforce, Timeout: gpu.Some(max(time.Until(asked.until).Seconds(), 0)),
	}
	if strings.ContainsAny(p.GPU, "=~<>!,") {
		b.Where = p.GPU
	} else {
		b.GPU = p.GPU
	}
	request, err := s.request(ctx, b)
	if err != nil {
		return request, err
	}
	request.Holder.Name = p.Name // and not what its process is called: the next run is like this one
	request.Preferred = run.Planned
	if len(p.Candidates) > 0 && len(p.Candidates) < len(s.Monitor.Readings()) {
		request.Only = p.Candidates
	}
	return request, nil
}

// whyElsewhere says why the device of the plan was not taken. It is found out
// after the grant, so it may be over by now.
func (s *server) whyElsewhere(request lease.Request, planned string) string {
	switch {
	case planned == "":
		return "the plan names no device"
	case s.Ledger.Sum(planned).Device.UUID == "":
		return fmt.Sprintf("device %s is not there any more", planned)
	}
	request.ID += "-there"
	request.Where.GPU, request.Only = planned, nil
	if e, err := s.Ledger.Explain(request); err == nil && e.Refusal != nil {
		for _, reason := range e.Refusal.Reasons {
			if reason.GPU == planned {
				return fmt.Sprintf("%s: %s", s.label(planned), reason.Text)
			}
		}
	}
	return s.label(planned) + " had no room at that moment"
}

// label is a device for people.
func (s *server) label(uuid string) string {
	if r, known := s.Monitor.Find(uuid); known {
		return fmt.Sprintf("GPU %d", r.Device.Index)
	}
	return uuid
}

// giveBack releases what was granted to somebody who has left.
func (s *server) giveBack(runs []api.RunningRun) {
	for _, run := range runs {
		if run.Lease != nil {
			_, _ = s.Ledger.Release(context.Background(), run.Lease.ID, run.Lease.Fence, lease.Daemon()) // it may have ended by itself
		}
	}
}

// onlyRefusals is the first refusal, if no run got anything.
func onlyRefusals(runs []api.RunningRun) error {
	for _, run := range runs {
		if run.Problem == nil {
			return nil
		}
	}
	return runs[0].Problem // there is one: a call without runs was refused
}

// asProblemOf is the problem that an error of this package is.
func asProblemOf(err error) *api.Problem {
	if p := (*api.Problem)(nil); errors.As(err, &p) {
		return p
	}
	return problem(http.StatusInternalServerError, "internal", "The daemon could not do this: %v.", err)
}
