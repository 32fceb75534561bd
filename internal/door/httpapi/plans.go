package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/batch/pipeline"
	"github.com/berth-gpu/berth/internal/door/problems"
	"github.com/berth-gpu/berth/internal/text/words"
)

// maxPlanBody has room for the largest file together with an interpreter's report about
// its libraries, and for a plan of thousands of runs. In JSON, one byte of a file takes
// up to six bytes.
const maxPlanBody = 6*pipeline.MaxFile + 2<<20

// mostOfPlan is the size of a body that a plan has no more values than: those of a plan
// have long texts.
const mostOfPlan = maxPlanBody / 2

func registerPlans(s *server) {
	op := func(id, path, summary, description string) huma.Operation {
		op := on("POST "+path, "plans", id, summary, description, http.StatusNotFound, http.StatusConflict)
		op.SkipValidateBody, op.MaxBodyBytes = true, maxPlanBody
		return op
	}
	// The framework would describe the bodies as raw bytes.
	takes := func(path string, content map[string]*huma.MediaType) {
		s.api.OpenAPI().Paths[path].Post.RequestBody.Content = content
	}
	compile := op("plan", "/api/plans", "Compile pipelines into a plan, against the devices as they are now",
		"This starts nothing and leases nothing. A file that cannot work is refused as plan_refused, with every problem in fields, and in "+
			"extra.problems with its line, pipeline, step, code and remedy. With Content-Type: application/yaml the body is a pipeline file.")
	serve(s, compile, s.compile)
	takes(compile.Path, map[string]*huma.MediaType{
		"application/json": {Schema: schemaOf[api.PlanRequest](s.api)}, "application/yaml": {Schema: &huma.Schema{Type: "string"}},
	})

	run := creating(op("plan-run", "/api/plans/run", "Lease what the runs of a plan need",
		"Each run gets one lease, whole or not at all, that ends with its process. The lease is on the device of the plan if that has room, else on another "+
			"that the pipeline can use; placement and reason say so. A run that finds no room within timeout_seconds is refused: ask again when a lease has ended."))
	serve(s, run, s.runPlan)
	takes(run.Path, map[string]*huma.MediaType{"application/json": {Schema: schemaOf[api.PlanRun](s.api)}})
}

// planBody keeps the body undecoded: pipeline files have their own reader, which finds
// every error in them.
type planBody struct {
	ContentType string `header:"Content-Type" hidden:"true"`
	RawBody     []byte `contentType:"application/json"`
}

func (s *server) compile(ctx context.Context, in *planBody) (*answer[api.Plan], error) {
	asked, err := in.request()
	if err != nil {
		return nil, err
	}
	plan, err := s.Desk.Plans.Make(askerOf(ctx), asked)
	if err != nil {
		return nil, err
	}
	return ok(*plan)
}

// request decodes a body in JSON or YAML.
func (b *planBody) request() (api.PlanRequest, error) {
	switch media, _, _ := mime.ParseMediaType(b.ContentType); media {
	case "application/json":
		var asked api.PlanRequest
		return asked, strictly(b.RawBody, &asked)
	case "application/yaml", "application/x-yaml", "text/yaml":
		return api.PlanRequest{Text: string(b.RawBody)}, nil
	}
	return api.PlanRequest{}, problems.New(http.StatusUnsupportedMediaType, "unsupported_media_type",
		"The body must be JSON (Content-Type: application/json) or a pipeline file (application/yaml).")
}

// strictly decodes one JSON object, and refuses unknown fields: a typing error must not
// change the meaning of a plan.
func strictly(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	err := bounded(text, mostOfPlan)
	if err == nil {
		err = decoder.Decode(into)
	}
	if err == nil && decoder.More() {
		err = errors.New("there is text after the object")
	}
	if err == nil {
		return nil
	}
	wrong := taken{}.inWords(&huma.ErrorDetail{Location: "body", Message: err.Error()})
	if name, found := strings.CutPrefix(err.Error(), "json: unknown field "); found {
		name = strings.Trim(name, `"`)
		wrong = api.FieldProblem{Field: words.Cut(name, mostField), Detail: "is not a field of this body: " + meant(name, fieldsOf(reflect.TypeOf(into).Elem()))}
	}
	p := problems.New(http.StatusBadRequest, "malformed_body", "The body does not have the form that this path takes. Send one whole JSON object; /openapi.json describes it.")
	p.Fields = []api.FieldProblem{wrong}
	return p
}

// fieldsOf returns the names that the fields of a struct have in JSON.
func fieldsOf(t reflect.Type) (names []string) {
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// runBody is the body of a request to run a plan, and whether it was made before.
type runBody struct {
	ContentType string `header:"Content-Type" hidden:"true"`
	Repeated    bool   `query:"repeated" doc:"You asked for this before, with the same id, and no answer came. See POST /api/leases."`
	RawBody     []byte `contentType:"application/json"`
}

func (s *server) runPlan(ctx context.Context, in *runBody) (*answer[api.PlanRunning], error) {
	asked, err := in.run()
	if err != nil {
		return nil, err
	}
	by := askerOf(ctx)
	by.Repeated = in.Repeated
	running, err := s.Desk.Plans.Run(ctx, by, asked)
	if err != nil {
		return nil, err
	}
	result := api.PlanRunning{Plan: running.Plan, Runs: make([]api.RunningRun, len(running.Runs))}
	for i, run := range running.Runs {
		if run.Refusal != nil {
			run.Problem = problemOf(run.Refusal)
			run.Reason = run.Problem.Detail
		}
		result.Runs[i] = run.RunningRun
	}
	return ok(result)
}

// run decodes the body. It ignores unknown fields of the plan, which may come from
// a newer daemon.
func (b *runBody) run() (asked api.PlanRun, err error) {
	if media, _, _ := mime.ParseMediaType(b.ContentType); media != "application/json" {
		return asked, problems.New(http.StatusUnsupportedMediaType, "unsupported_media_type", "The body must be JSON: send Content-Type: application/json.")
	}
	body := struct {
		*api.PlanRun
		Plan json.RawMessage `json:"plan"`
	}{PlanRun: &asked}
	if err := strictly(b.RawBody, &body); err != nil {
		return asked, err
	}
	if len(body.Plan) > 0 {
		if err := json.Unmarshal(body.Plan, &asked.Plan); err != nil {
			return asked, problems.New(http.StatusBadRequest, "malformed_body", "The plan is not an answer of POST /api/plans. Send it as that answered.")
		}
	}
	return asked, nil
}
