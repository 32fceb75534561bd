package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/peaks"
	"github.com/berth-gpu/berth/internal/process"
)

// wells is the file of a plate as a request: so many wells, of 1600 MiB each
// with the context.
func wells(count int, more string) string {
	return fmt.Sprintf(`{"pipelines":[{"name":"plate","count":%d,"steps":[
		{"name":"load","input":"numpy","output":"numpy"},
		{"name":"denoise","input":"cupy","output":"cupy","memory_mb":1000}]%s}]}`, count, more)
}

// openPlans is a daemon that keeps 600 MiB of each lease for the context.
func openPlans(t *testing.T, devices string) *door {
	t.Helper()
	d := open(t, devices)
	d.desk.Config = func() *config.Config { return &config.Config{GPU: config.GPU{Context: 600}} }
	d.remake()
	return d
}

// asUser asks as a process of this user would over the socket: the test itself.
func (d *door) asUser(t *testing.T, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	return d.asUserIn(t.Context(), t, path, body)
}

func (d *door) asUserIn(ctx context.Context, t *testing.T, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	id, err := process.Proc().Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	boot, err := process.Proc().Boot()
	if err != nil {
		t.Fatal(err)
	}
	caller := holding(lease.Holder{UID: os.Getuid(), User: "ada", PID: id.PID, Start: id.Start, Boot: boot}, access.User)
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r.WithContext(withIdentity(ctx, caller)))
	return w
}

func runsPerDevice(p api.Plan) []int {
	var all []int
	for _, d := range p.Devices {
		all = append(all, d.Runs)
	}
	return all
}

func TestPlanSpreadsWells(t *testing.T) {
	d := openPlans(t, "2xrtx-4060")
	w := d.ask("POST", "/api/plans", wells(6, ""))
	plan := decode[api.Plan](t, w)
	if w.Code != http.StatusOK || !slices.Equal(runsPerDevice(plan), []int{3, 3}) || plan.SideBySide != 4 || plan.Waves != 2 {
		t.Fatalf("%d: %d side by side in %d waves, on each device %v", w.Code, plan.SideBySide, plan.Waves, runsPerDevice(plan))
	}
	if p := plan.Pipelines[0]; p.Memory != 1600 || p.Context != 600 || len(p.Candidates) != 2 || p.Steps[1].Conversions[0].Cost != "host_copy" {
		t.Errorf("the pipeline is planned as %+v", p)
	}
	if !slices.Contains(plan.Notes, "nobody checked whether the interpreter has the libraries") {
		t.Errorf("the plan does not say that nobody asked for the libraries: %q", plan.Notes)
	}
	events, _ := d.events.Kept(0)
	last := events[len(events)-1]
	if last.Code != gpu.EventPlan || last.Text != "Planned pipelines: 6 runs, 4 side by side on GPUs, for anyone" {
		t.Errorf("the last event is %s: %s", last.Code, last.Text)
	}
}

func TestPlanSeesWhatIsLeased(t *testing.T) {
	d := openPlans(t, "2xrtx-4060")
	first := d.ids(t)[0]
	if w := d.ask("POST", "/api/leases", `{"gpu":"`+first+`","slots":2}`); w.Code != http.StatusCreated {
		t.Fatal(w.Body)
	}
	plan := decode[api.Plan](t, d.ask("POST", "/api/plans", wells(2, "")))
	if !slices.Equal(runsPerDevice(plan), []int{0, 2}) {
		t.Errorf("on each device %v, want all on the second", runsPerDevice(plan))
	}
}

func (d *door) ids(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, g := range decode[api.StatusAll](t, d.ask("GET", "/api/gpu/status/all", "")).GPUs {
		all = append(all, g.Device.UUID)
	}
	return all
}

func TestPlanOfAFile(t *testing.T) {
	d := openPlans(t, "1xrtx-4060")
	file := "pipelines:\n- name: image\n  steps:\n  - {name: denoise, input: cupy, output: cupy, memory_mb: 900GiB}\n"
	for name, w := range map[string]*httptest.ResponseRecorder{
		"yaml": d.ask("POST", "/api/plans", file, "Content-Type", "application/yaml"),
		"text": d.ask("POST", "/api/plans", `{"name":"pipelines","text":`+quoted(file)+`}`),
	} {
		p := decode[api.Problem](t, w)
		want := api.FieldProblem{Field: "image/denoise", Detail: "line 4: it needs 900 GiB (declared) and 0.6 GiB for the CUDA context, and the largest GPU " +
			"it may use is GPU 0 (NVIDIA GeForce RTX 4060 (simulated)) with 7.2 GiB; work on smaller pieces; at most 6.7 GiB fit"}
		if w.Code != 422 || p.Code != "plan_refused" || len(p.Fields) != 1 || p.Fields[0] != want {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		if p.Detail != "Pipelines cannot be planned: 1 problem. Nothing was started." {
			t.Errorf("%s: detail %q", name, p.Detail)
		}
		problems, _ := json.Marshal(p.Extra["problems"])
		if !strings.Contains(string(problems), `"code":"too_much_memory"`) || !strings.Contains(string(problems), `"line":4`) {
			t.Errorf("%s: problems %s", name, problems)
		}
	}
}

// A typing error hides nothing that is wrong with the rest of the file.
func TestPlanHasAllProblemsAtOnce(t *testing.T) {
	d := openPlans(t, "1xrtx-4060")
	body := `{"pipelines":[{"name":"p","gpu":42,"steps":[
		{"name":"a","input":"cuppy","output":"cupy"},
		{"name":"b","input":"torch","output":"torch","memory_mb":"900GiB"}]}],"libraries":{"cupy":{"status":"missing"},"torch":{"devices_unknown":"?"}}}`
	p := decode[api.Problem](t, d.ask("POST", "/api/plans", body))
	problems, _ := json.Marshal(p.Extra["problems"])
	if p.Code != "plan_refused" || len(p.Fields) != 4 {
		t.Errorf("%+v", p)
	}
	for _, code := range []string{"unknown_memory_type", "no_such_device", "too_much_memory", "missing_library"} {
		if !strings.Contains(string(problems), `"code":"`+code+`"`) {
			t.Errorf("no problem %s in %s", code, problems)
		}
	}
}

func TestImplausibleMeasurementsAreRefused(t *testing.T) {
	d := openPlans(t, "1xrtx-4060")
	for memory, want := range map[int]int{8188: http.StatusNoContent, 8189: http.StatusUnprocessableEntity, 1_000_000_000: http.StatusUnprocessableEntity} {
		if w := d.asUser(t, "/api/measurements", fmt.Sprintf(`{"name":"p","step":"a","memory_mb":%d,"seconds":1}`, memory)); w.Code != want {
			t.Errorf("%d MiB: %d %s", memory, w.Code, w.Body)
		}
	}
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func TestPlanChecksLibraries(t *testing.T) {
	d := openPlans(t, "1xrtx-4060")
	for _, test := range []struct{ name, libraries, want string }{
		{"all there", `{"numpy":{"version":"2.3.1"},"cupy":{"status":"ok","version":"14.0"}}`, ""},
		{"missing", `{"numpy":{},"cupy":{"status":"missing"}}`, "cupy is not installed for python3"},
		{"an error is enough", `{"numpy":{},"cupy":{"error":"no libcudart"}}`, "cupy is installed for python3, but cannot be imported: no libcudart"},
	} {
		t.Run(test.name, func(t *testing.T) {
			body := strings.TrimSuffix(wells(1, ""), "}") + `,"interpreter":"python3","libraries":` + test.libraries + `}`
			w := d.ask("POST", "/api/plans", body)
			if test.want == "" {
				if plan := decode[api.Plan](t, w); w.Code != 200 || plan.Pipelines[0].Steps[1].Libraries[0].Version != "14.0" {
					t.Errorf("%d %s", w.Code, w.Body)
				}
				return
			}
			p := decode[api.Problem](t, w)
			if p.Code != "plan_refused" || !strings.HasPrefix(p.Fields[0].Detail, test.want) {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
}

func TestPlanUsesWhatWasLearned(t *testing.T) {
	d := openPlans(t, "1xrtx-4060")
	for range 3 {
		d.desk.Peaks.Add(peaks.Key{User: "ada", Name: "plate", Step: "denoise"}, peaks.Run{Peak: 2000, Seconds: 1.5}, time.Now())
	}
	d.desk.Peaks.Add(peaks.Key{User: "ada", Name: "microscopy.denoise"}, peaks.Run{Peak: 3000}, time.Now())
	step := decode[api.Plan](t, d.asUser(t, "/api/plans", wells(1, ""))).Pipelines[0].Steps[1]
	if step.Memory != 2200 || step.MemoryFrom != "learned" || step.Measured != 3 || step.Seconds.Or(0) != 1.5 {
		t.Errorf("the step is planned as %+v", step)
	}
	shared := strings.Replace(wells(1, ""), `"memory_mb":1000`, `"function":"microscopy.denoise"`, 1)
	if step := decode[api.Plan](t, d.asUser(t, "/api/plans", shared)).Pipelines[0].Steps[1]; step.Memory != 3300 {
		t.Errorf("a step with a function is planned as %+v", step)
	}
	if step := decode[api.Plan](t, d.ask("POST", "/api/plans", wells(1, ""))).Pipelines[0].Steps[1]; step.MemoryFrom != "declared" {
		t.Errorf("somebody else's step is planned as %+v", step)
	}
}

func TestPlanBadInput(t *testing.T) {
	d := openPlans(t, "1xrtx-4060")
	for _, test := range []struct {
		name, path, body, media string
		status                  int
		code                    string
		says                    string
	}{
		{name: "nothing", body: `{}`, status: 422, code: "invalid_request", says: "There are no pipelines: give them in pipelines, or as a file in text."},
		{name: "both", body: `{"text":"a","pipelines":[]}`, status: 422, code: "invalid_request", says: "not both"},
		{name: "a library that is neither there nor not", body: `{"pipelines":[],"libraries":{"cupy":{"status":"weird"}}}`, status: 422, code: "invalid_request",
			says: `"field":"libraries.cupy.status","detail":"\"weird\" is none of ok, missing, broken"`},
		{name: "no pipelines", body: `{"pipelines":[]}`, status: 422, code: "plan_refused"},
		{name: "not a list", body: `{"pipelines":7}`, status: 422, code: "plan_refused"},
		{name: "a word that means nothing", body: `{"pipeline":[]}`, status: 400, code: "malformed_body"},
		{name: "half an object", body: `{"pipelines":[`, status: 400, code: "malformed_body"},
		{name: "two objects", body: wells(1, "") + `{}`, status: 400, code: "malformed_body"},
		{name: "XML", body: `<plan/>`, media: "text/xml", status: 415, code: "unsupported_media_type"},
		{name: "a file of 10 MB", body: strings.Repeat("\t", 10<<20), media: "application/yaml", status: 413, code: "body_too_large", says: "larger than this path allows (8388608 bytes)"},
		{name: "a file of 1.5 MiB", body: strings.Repeat("\t", 3<<19), media: "application/yaml", status: 422, code: "plan_refused", says: "the file is larger than 1 MiB"},
		{name: "a file of 900 KB that is six times as long as JSON", body: `{"text":"` + strings.Repeat(`\u003c`, 900_000) + `"}`, status: 422, code: "plan_refused", says: "must be a section"},
		{name: "cycle", body: `{"pipelines":[{"name":"p","steps":[{"name":"a","input":"numpy","output":"numpy","after":["a"]}]}]}`, status: 422, code: "plan_refused"},
		{name: "run nothing", path: "/run", body: `{}`, status: 422, code: "invalid_request", says: "There is nothing to run: give a plan"},
		{name: "run a plan and pipelines", path: "/run", body: `{"plan":{},"pipelines":[]}`, status: 422, code: "invalid_request"},
		{name: "run without a name", path: "/run", body: `{"plan":{"pipelines":[{"name":"p","slots":1,"runs":[{"name":""}]}]}}`, status: 422, code: "invalid_request",
			says: "A run of pipeline \\\"p\\\" has no name."},
		{name: "run an empty plan", path: "/run", body: `{"plan":{}}`, status: 422, code: "unknown_run"},
		{name: "run what is no plan", path: "/run", body: `{"plan":[]}`, status: 400, code: "malformed_body"},
		{name: "run as YAML", path: "/run", body: `plan: {}`, media: "application/yaml", status: 415, code: "unsupported_media_type"},
		{name: "run and wait for ever", path: "/run", body: `{"plan":{},"timeout_seconds":1e12}`, status: 422, code: "invalid_request"},
		{name: "run and wait backwards", path: "/run", body: `{"plan":{},"timeout_seconds":-1}`, status: 422, code: "invalid_request"},
		{name: "run another run", path: "/run", body: strings.TrimSuffix(wells(1, ""), "}") + `,"runs":["plate[7]"]}`, status: 422, code: "unknown_run"},
		{name: "run under somebody unknown", path: "/run", body: `{"plan":{},"enforce":"police"}`, status: 422, code: "invalid_request"},
		{name: "run none of them", path: "/run", body: strings.TrimSuffix(wells(1, ""), "}") + `,"runs":[]}`, status: 422, code: "unknown_run"},
		{name: "run more than there can be", path: "/run", body: `{"plan":{"pipelines":[{"slots":1,"runs":[{"name":"a"}` + strings.Repeat(`,{"name":"a"}`, 10_000) + `]}]}}`, status: 422, code: "invalid_request"},
		{name: "one id for two runs", path: "/run", body: strings.TrimSuffix(wells(2, ""), "}") + `,"id":"a"}`, status: 422, code: "invalid_request"},
		{name: "a hostile plan", path: "/run", body: `{"plan":{"pipelines":[{"memory_mb":-5,"slots":99999999,"runs":[{"name":"\u0000"}]}]}}`, status: 422, code: "invalid_request"},
	} {
		t.Run(test.name, func(t *testing.T) {
			media := test.media
			if media == "" {
				media = "application/json"
			}
			w := d.ask("POST", "/api/plans"+test.path, test.body, "Content-Type", media)
			if p := decode[api.Problem](t, w); w.Code != test.status || p.Code != test.code || !strings.Contains(p.Detail, " ") || !strings.Contains(w.Body.String(), test.says) {
				t.Errorf("answer is %d %.300s, want %d %s", w.Code, w.Body, test.status, test.code)
			}
		})
	}
	if leases, waiting := d.Ledger.Len(); leases+waiting != 0 {
		t.Errorf("%d leases and %d requests are left behind", leases, waiting)
	}
}
