package desk

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/batch/pipeline"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/peaks"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Plan compiles pipelines against the devices as they are now, and publishes that it did.
// It starts nothing and leases nothing.
func (d *Desk) Plan(by Caller, asked api.PlanRequest) (*api.Plan, error) {
	if err := checkPlanRequest(&asked); err != nil {
		return nil, err
	}
	if err := knownStatuses(asked.Libraries); err != nil {
		return nil, err
	}
	file, err := readPipelines(asked)
	if file == nil {
		return nil, err
	}
	plan, err := pipeline.Compile(file, d.world(file, asked, by.User))
	if err != nil {
		refusal := planRefused(err, asked)
		data := map[string]any{"problems": len(refusal.Fields)}
		d.tell(&by, gpu.Event{Data: data}, file.Name, "pipelines", "Refused to plan %s: %s", words.Count(len(refusal.Fields), "problem"))
		return nil, refusal
	}
	runs := 0
	for i := range plan.Pipelines {
		runs += len(plan.Pipelines[i].Runs)
	}
	data := map[string]any{"pipelines": len(plan.Pipelines), "runs": runs, "side_by_side": plan.SideBySide, "waves": plan.Waves}
	d.tell(&by, gpu.Event{Data: data}, file.Name, "pipelines", "Planned %s: %s, %d side by side on GPUs", words.Count(runs, "run"), plan.SideBySide)
	plan.Table = pipeline.Table(plan, pipeline.Width)
	return plan, nil
}

// readPipelines returns the pipelines of a request. Beside an error it may return those
// that it could read, so that the compiler can report on all of them.
func readPipelines(asked api.PlanRequest) (*pipeline.File, error) {
	name, text := asked.Name, []byte(asked.Text)
	if name == "" {
		name = "pipelines"
	}
	switch given := len(asked.Pipelines) > 0; {
	case given && asked.Text != "":
		return nil, Refuse(Invalid, "invalid_request", "Give the pipelines in pipelines, or as a file in text, and not both.")
	case given:
		text = fmt.Appendf(nil, `{"pipelines":%s}`, asked.Pipelines)
	case asked.Text == "":
		return nil, Refuse(Invalid, "invalid_request", "There are no pipelines: give them in pipelines, or as a file in text.")
	}
	file, err := pipeline.Parse(name, text)
	if err != nil {
		return file, planRefused(err, asked)
	}
	return file, nil
}

// world returns the world that a file is compiled for.
func (d *Desk) world(file *pipeline.File, asked api.PlanRequest, user string) pipeline.World {
	w := pipeline.World{
		Interpreter: asked.Interpreter, ProbeError: asked.ProbeError, CPUs: d.CPUs,
		Libraries: asked.Libraries, Learned: d.learned(file, user), Context: d.Config().GPU.Context,
	}
	for _, sum := range d.Ledger.Sums() {
		on := sum.Device
		w.Devices = append(w.Devices, pipeline.Device{
			UUID: on.UUID, Index: on.Index, Name: on.Name, Vendor: on.Vendor, PCI: on.PCI, ComputeCapability: on.ComputeCapability,
			MemoryTotal: on.MemoryTotal, Ceiling: max(sum.Most, 1), Available: sum.Available(),
			Active: sum.Active, Usable: sum.Usable, MaxPipelines: sum.MaxPipelines, State: sum.State, Closed: sum.Closed,
			Recent: sum.Recent.Order(),
		})
	}
	return w
}

// learned returns what earlier runs showed about the steps of a file, by signature.
func (d *Desk) learned(file *pipeline.File, user string) map[string]pipeline.Peak {
	all := map[string]pipeline.Peak{}
	for i := range file.Pipelines {
		p := &file.Pipelines[i]
		for j := range p.Steps {
			step := &p.Steps[j]
			name, of := p.Name, step.Name
			if step.Function != "" {
				name, of = step.Function, ""
			}
			if e, known := d.Peaks.Find(peaks.Key{User: user, Name: name, Step: of}); known {
				all[p.Signature(step)] = pipeline.Peak{Memory: e.Known(), Seconds: e.Seconds(), Observations: e.Count}
			}
		}
	}
	return all
}

// knownStatuses refuses a status that no library has.
func knownStatuses(said map[string]api.Library) error {
	var errs lease.FieldErrors
	for _, name := range slices.Sorted(maps.Keys(said)) {
		switch status := said[name].Status; status {
		case "", api.LibraryOK, api.LibraryMissing, api.LibraryBroken:
		default:
			errs = append(errs, lease.FieldError{Field: "libraries." + name + ".status", Detail: fmt.Sprintf("%q is none of ok, missing, broken", status)})
		}
	}
	if errs != nil {
		return wrongFields(errs)
	}
	return nil
}

// planRefused returns a refusal that lists everything wrong with a file. It names lines
// only if the pipelines came as a file: those of JSON help nobody.
func planRefused(err error, asked api.PlanRequest) *Refusal {
	all := (*pipeline.Error)(nil)
	if !errors.As(err, &all) {
		return Refuse(Failed, "internal", "The daemon could not do this: %v.", err)
	}
	r := Refuse(Invalid, "plan_refused", "%s cannot be planned: %s. Nothing was started; see fields.",
		words.UpperFirst(all.File), words.Count(len(all.Problems), "problem"))
	for i := range all.Problems {
		found := &all.Problems[i]
		if asked.Text == "" {
			found.Line = 0
		}
		detail := found.Reason
		if found.Remedy != "" {
			detail += "; " + found.Remedy
		}
		if found.Line > 0 {
			detail = fmt.Sprintf("line %d: %s", found.Line, detail)
		}
		r.Fields = append(r.Fields, api.FieldProblem{Field: whereInFile(found), Detail: detail})
	}
	r.Extra = map[string]any{"problems": all.Problems}
	return r
}

func whereInFile(p *pipeline.Problem) string {
	switch {
	case p.Step != "":
		return p.Pipeline + "/" + p.Step
	case p.Pipeline != "":
		return p.Pipeline
	}
	return "file"
}

// tell publishes what became of a plan or of one of its runs. The first argument of the
// format is its name; other users read its kind instead.
func (d *Desk) tell(by *Caller, e gpu.Event, name, kind, format string, args ...any) {
	say := func(what string) string {
		return fmt.Sprintf(format, append([]any{what}, args...)...) + ", for " + by.User
	}
	e.Time, e.Code, e.Severity, e.User, e.By = time.Now(), gpu.EventPlan, gpu.Note, by.User, lease.ByOf(by.Actor)
	e.Text, e.Public = say(name), say(kind)
	d.Publish(e)
}
