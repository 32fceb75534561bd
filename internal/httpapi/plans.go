package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/pipeline"
	"github.com/berth-gpu/berth/internal/words"
)

// Peaks remembers what the steps of pipelines were measured to take.
type Peaks interface {
	// Peak is what is known about a step of a user's pipeline or, without a
	// step, about a function; false: nothing is.
	Peak(user, name, step string) (pipeline.Peak, bool)
}

// maxPlanBody is room for the largest file with what an interpreter says about
// its libraries, and for a plan of thousands of runs. As JSON a byte of a file
// takes up to six.
const maxPlanBody = 6*pipeline.MaxFile + 2<<20

func (s *server) registerPlans() {
	op := func(id, path, summary, description string, body reflect.Type) huma.Operation {
		schema := s.api.OpenAPI().Components.Schemas.Schema(body, true, "")
		return huma.Operation{
			OperationID: id, Method: http.MethodPost, Path: path, Summary: summary, Description: description, Tags: []string{"plans"},
			RequestBody:      &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}},
			SkipValidateBody: true, MaxBodyBytes: maxPlanBody,
		}
	}
	compile := op("plan", "/api/plans", "Compile pipelines into a plan, against the devices as they are now",
		"Nothing is started and nothing leased. A file that cannot work is refused as plan_refused, with every problem in fields, and in "+
			"extra.problems with its line, pipeline, step, code and remedy. With Content-Type: application/yaml the body is a pipeline file.",
		reflect.TypeFor[api.PlanRequest]())
	compile.RequestBody.Content["application/yaml"] = &huma.MediaType{Schema: &huma.Schema{Type: "string"}}
	huma.Register(s.api, compile, s.compile)

	run := op("plan-run", "/api/plans/run", "Lease what the runs of a plan need",
		"Each run gets one lease, whole or not at all, that ends with its process. The device of the plan is taken if it has room; else another that "+
			"the pipeline can use, and placement and reason say so. What has no room is refused once the time is over: ask again when something has ended.",
		reflect.TypeFor[api.PlanRun]())
	run.DefaultStatus = http.StatusCreated
	huma.Register(s.api, run, s.runPlan)
}

// planBody is taken as it came: a pipeline file has its own reader, which finds
// everything that is wrong with it.
type planBody struct {
	ContentType string `header:"Content-Type" hidden:"true"`
	RawBody     []byte `contentType:"application/json"`
}

func (s *server) compile(ctx context.Context, in *planBody) (*answer[api.Plan], error) {
	asked, err := in.request()
	if err != nil {
		return nil, err
	}
	plan, err := s.plan(ctx, asked)
	if err != nil {
		return nil, err
	}
	return ok(*plan)
}

// request reads the body of either form.
func (b *planBody) request() (api.PlanRequest, error) {
	switch media, _, _ := mime.ParseMediaType(b.ContentType); media {
	case "application/json":
		var asked api.PlanRequest
		return asked, strictly(b.RawBody, &asked)
	case "application/yaml", "application/x-yaml", "text/yaml":
		return api.PlanRequest{Text: string(b.RawBody)}, nil
	}
	return api.PlanRequest{}, problem(http.StatusUnsupportedMediaType, "unsupported_media_type",
		"The body must be JSON (Content-Type: application/json) or a pipeline file (application/yaml).")
}

// strictly reads one JSON object, and refuses words it does not know: a typing
// error must not change what a plan means.
func strictly(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil && decoder.More() {
		err = errors.New("something follows the object")
	}
	if err != nil {
		return problem(http.StatusBadRequest, "malformed_body", "The body is not what this path takes: %v. /openapi.json has its shape.", err)
	}
	return nil
}

// plan compiles what was asked for and says that it did.
func (s *server) plan(ctx context.Context, asked api.PlanRequest) (*api.Plan, error) {
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
	plan, err := pipeline.Compile(file, s.world(file, asked, callerOf(ctx).User))
	if err != nil {
		refusal := planRefused(err, asked)
		data := map[string]any{"problems": len(refusal.Fields)}
		s.tell(ctx, gpu.Event{Data: data}, file.Name, "pipelines", "Refused to plan %s: %s", words.Count(len(refusal.Fields), "problem"))
		return nil, refusal
	}
	runs := 0
	for i := range plan.Pipelines {
		runs += len(plan.Pipelines[i].Runs)
	}
	data := map[string]any{"pipelines": len(plan.Pipelines), "runs": runs, "side_by_side": plan.SideBySide, "waves": plan.Waves}
	s.tell(ctx, gpu.Event{Data: data}, file.Name, "pipelines", "Planned %s: %s, %d side by side on GPUs", words.Count(runs, "run"), plan.SideBySide)
	return planOf(plan), nil
}

// readPipelines finds the pipelines of a request. Beside an error there may be
// some: what could be read, for the compiler to report on all of it.
func readPipelines(asked api.PlanRequest) (*pipeline.File, error) {
	name, text := asked.Name, []byte(asked.Text)
	if name == "" {
		name = "pipelines"
	}
	switch given := len(asked.Pipelines) > 0; {
	case given && asked.Text != "":
		return nil, problem(http.StatusUnprocessableEntity, "invalid_request", "Give the pipelines in pipelines, or as a file in text, and not both.")
	case given:
		text = fmt.Appendf(nil, `{"pipelines":%s}`, asked.Pipelines)
	case asked.Text == "":
		return nil, problem(http.StatusUnprocessableEntity, "invalid_request", "There are no pipelines: give them in pipelines, or as a file in text.")
	}
	file, err := pipeline.Parse(name, text)
	if err != nil {
		return file, planRefused(err, asked)
	}
	return file, nil
}

// world is what a file is compiled for.
func (s *server) world(file *pipeline.File, asked api.PlanRequest, user string) pipeline.World {
	w := pipeline.World{
		Interpreter: asked.Interpreter, ProbeError: asked.ProbeError, CPUs: s.CPUs,
		Libraries: librariesOf(asked.Libraries), Learned: s.learned(file, user), Context: s.Enforcement().Context,
	}
	for _, sum := range s.Ledger.Sums() {
		d := sum.Device
		w.Devices = append(w.Devices, pipeline.Device{
			UUID: d.UUID, Index: d.Index, Name: d.Name, Vendor: d.Vendor, PCI: d.PCI, ComputeCapability: d.ComputeCapability,
			MemoryTotal: d.MemoryTotal, Ceiling: max(sum.Most, 1), Available: sum.Available(),
			Active: sum.Active, Usable: sum.Usable, MaxPipelines: sum.MaxPipelines, State: sum.State, Closed: sum.Closed,
		})
	}
	return w
}

// learned is what is known about the steps of a file, by signature.
func (s *server) learned(file *pipeline.File, user string) map[string]pipeline.Peak {
	if s.Peaks == nil {
		return nil
	}
	all := map[string]pipeline.Peak{}
	for i := range file.Pipelines {
		p := &file.Pipelines[i]
		for j := range p.Steps {
			step := &p.Steps[j]
			name, of := p.Name, step.Name
			if step.Function != "" {
				name, of = step.Function, ""
			}
			if peak, known := s.Peaks.Peak(user, name, of); known {
				all[p.Signature(step)] = peak
			}
		}
	}
	return all
}

// knownStatuses refuses what a library cannot be.
func knownStatuses(said map[string]api.Library) error {
	var errs lease.FieldErrors
	for _, name := range slices.Sorted(maps.Keys(said)) {
		switch status := pipeline.Status(said[name].Status); status {
		case "", pipeline.LibraryOK, pipeline.LibraryMissing, pipeline.LibraryBroken:
		default:
			errs = append(errs, lease.FieldError{Field: "libraries." + name + ".status", Detail: fmt.Sprintf("%q is none of ok, missing, broken", status)})
		}
	}
	if errs != nil {
		return wrongFields(errs)
	}
	return nil
}

// librariesOf keeps nil apart from empty: nil is that nobody asked.
func librariesOf(said map[string]api.Library) map[string]pipeline.Library {
	if said == nil {
		return nil
	}
	all := make(map[string]pipeline.Library, len(said))
	for name, l := range said {
		library := pipeline.Library{
			Status: pipeline.Status(l.Status), Version: l.Version, Reason: l.Reason, DevicesUnknown: l.DevicesUnknown,
		}
		if library.Reason == "" {
			library.Reason = l.Error
		}
		switch {
		case library.Status != "":
		case l.Error != "":
			library.Status = pipeline.LibraryBroken
		default:
			library.Status = pipeline.LibraryOK
		}
		for _, v := range l.Devices {
			library.Devices = append(library.Devices, pipeline.Visible(v))
		}
		all[name] = library
	}
	return all
}

// planRefused is everything that is wrong with a file. Lines are those of a
// file; pipelines that came as JSON have none worth naming.
func planRefused(err error, asked api.PlanRequest) *api.Problem {
	all := (*pipeline.Error)(nil)
	if !errors.As(err, &all) {
		return problem(http.StatusInternalServerError, "internal", "The daemon could not do this: %v.", err)
	}
	p := problem(http.StatusUnprocessableEntity, "plan_refused", "%s cannot be planned: %s. Nothing was started; see fields.",
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
		p.Fields = append(p.Fields, api.FieldProblem{Field: whereInFile(found), Detail: detail})
	}
	p.Extra = map[string]any{"problems": all.Problems}
	return p
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

// planOf is a plan as it travels.
func planOf(p *pipeline.Plan) *api.Plan {
	var wire api.Plan
	text, err := json.Marshal(p)
	if err == nil {
		err = json.Unmarshal(text, &wire)
	}
	if err != nil {
		panic(err) // the shapes are held together by a test
	}
	wire.Table = p.Table()
	return &wire
}

// tell publishes what became of a plan or of one of its runs. The format begins
// with its name, which others read as what it is: a plan or a run.
func (s *server) tell(ctx context.Context, e gpu.Event, name, kind, format string, args ...any) {
	by := callerOf(ctx)
	say := func(what string) string {
		return fmt.Sprintf(format, append([]any{what}, args...)...) + ", for " + by.User
	}
	e.Time, e.Code, e.Severity, e.User = time.Now(), gpu.EventPlan, gpu.Note, by.User
	e.Text, e.Public = say(name), say(kind)
	s.Publish(e)
}
