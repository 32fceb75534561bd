package httpapi

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/access/users"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/desk"
	"github.com/berth-gpu/berth/internal/desk/tokens"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/device/sim"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
	"github.com/berth-gpu/berth/internal/door/problems"
	"github.com/berth-gpu/berth/internal/door/promapi"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/history/events"
	"github.com/berth-gpu/berth/internal/history/throughput"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/peaks"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
)

// door is the whole API over simulated devices, each read once.
type door struct {
	*server
	desk     desk.Parts
	t        testing.TB
	events   *events.Log
	settings *memorySettings
	tokens   *tokens.Tokens
	garage   *garage
	sweeper  *sweeper
}

func open(t testing.TB, devices string) *door {
	t.Helper()
	var backends []device.Backend
	if devices != "" {
		b, err := sim.Open(devices, sim.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		backends = append(backends, b)
	}
	settings, err := config.Merge()
	if err != nil {
		t.Fatal(err)
	}
	d := &door{t: t, events: events.New(100, time.UnixMicro(1000)), settings: &memorySettings{settings}}
	book, err := ledger.Open(ledger.Options{
		Settings:  quota.Settings{Device: func(string) quota.DeviceSettings { return quota.DeviceSettings{Reserve: 512, MaxPipelines: 2} }},
		Processes: process.Proc(),
		Open:      func(func(journal.Entry) error) (journal.Journal, error) { return journal.Forgetful(), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = book.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	m := monitor.New(backends, monitor.Settings{}, monitor.Keepers{})
	m.Subscribe(monitor.Hooks{Event: d.events.Publish, Reading: func(r monitor.Reading) {
		book.Observe(placement.Observation{Device: r.Device, Sample: &r.Sample, State: r.State, Health: r.Health, Reason: r.Reason})
	}})
	for read := false; !read; { // a starved machine may miss the deadline of a reading
		if err := m.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		read = !slices.ContainsFunc(m.Readings(), func(r monitor.Reading) bool { return !r.Sampled })
	}
	note := func() string { return "No GPU was found." }
	d.tokens, d.garage, d.sweeper = tokens.New(), &garage{moved: map[uint64]move.Status{}}, &sweeper{}
	d.desk = desk.Parts{
		Monitor: m, Ledger: book, Peaks: peaks.New(), Processes: process.Proc(), Users: users.New(users.Lookup, time.Minute), Operations: throughput.New(func(service, _ string) string { return service }), Tokens: d.tokens,
		Config: func() *config.Config {
			return &config.Config{Services: map[string]config.Service{"embedder": {}}, Optimization: config.Optimization{AllocationTimeout: time.Minute}}
		},
		Publish: d.events.Publish, Note: note,
		Parking: d.garage, Optimizer: d.sweeper,
	}
	d.server = build(Parts{
		Monitor: m, Events: d.events, Settings: d.settings, Ledger: book, Streams: new(sync.WaitGroup), Log: slog.New(slog.DiscardHandler),
		Desk:    desk.New(d.desk),
		Metrics: http.NotFoundHandler(), Host: "here", Version: "test",
		Note: note, Ready: func() error { return nil },
		Guests: guests(),
	})
	return d
}

// remake makes a door anew, with the parts of its desk as they are now.
func (d *door) remake() {
	p := d.server.Parts
	p.Desk = desk.New(d.desk)
	*d.server = *build(p)
}

// guests returns the routes of the other doors, of a daemon that keeps no past.
func guests() (list []Guest) {
	for _, route := range promapi.Routes(promapi.Sources{Now: time.Now}) {
		list = append(list, Guest(route))
	}
	return list
}

// memorySettings is a configuration that is kept nowhere.
type memorySettings struct{ *config.Settings }

func (m *memorySettings) GPU() (wire api.GPUConfig) {
	text, err := m.Config.Changeable()
	if err == nil {
		err = json.Unmarshal(text, &wire)
	}
	if err != nil {
		panic(err)
	}
	return wire
}
func (m *memorySettings) Fields() []api.ConfigField { return nil }
func (m *memorySettings) Reload(access.Actor) (api.ConfigReload, error) {
	return api.ConfigReload{}, errors.New("there is no file")
}
func (m *memorySettings) Change(_ context.Context, _ access.Actor, body []byte) error {
	next, _, err := m.Settings.Change(body)
	if err == nil {
		m.Settings = next
	}
	return err
}

// ServeHTTP lets requests in that say nothing about where they come from, as
// an administrator.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if doorkeeper.Of(r.Context()) == nil {
		anyone := holding(lease.Holder{UID: lease.NoUID, User: "anyone"}, access.Admin)
		r = r.WithContext(withIdentity(r.Context(), anyone))
	}
	seen := &refusalSeen{ResponseWriter: w}
	d.server.ServeHTTP(seen, r)
	if _, pattern := d.route(r); pattern != "" && seen.status >= 400 && seen.status < 500 {
		if op := operation(d.api.OpenAPI(), pattern); op.Responses[strconv.Itoa(seen.status)] == nil {
			d.t.Errorf("%s answers %d, and /openapi.json does not say so", pattern, seen.status)
		}
	}
}

// refusalSeen notes the status of an answer.
type refusalSeen struct {
	http.ResponseWriter
	status int
}

func (s *refusalSeen) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

func (s *refusalSeen) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// withIdentity is a request by somebody in particular, from this machine.
func withIdentity(ctx context.Context, who doorkeeper.Identity) context.Context {
	return doorkeeper.With(ctx, doorkeeper.As(who))
}

// holding returns somebody with a role, who holds leases as h.
func holding(h lease.Holder, role access.Role) doorkeeper.Identity {
	return doorkeeper.Identity{Actor: access.Actor{User: h.User, UID: h.UID, Door: access.Socket, Role: role}, Holder: h}
}

// viewer returns somebody who may only look.
func viewer() access.Actor {
	return access.Actor{UID: access.NoUID, User: "unknown", Door: access.Socket, Role: access.Viewer}
}

func (d *door) ask(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w
}

func decode[T any](t *testing.T, w *httptest.ResponseRecorder) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return v
}

func TestStatus(t *testing.T) {
	d := open(t, "2xrtx-4060")
	first := decode[api.Status](t, d.ask("GET", "/api/gpu/status", ""))
	if first.Device.Index != 0 || first.State != gpu.Optimal || first.Multiplier != 1 || first.Health != gpu.Healthy || first.Sample == nil {
		t.Errorf("the first device is %+v", first)
	}
	for _, ref := range []string{"1", decode[api.StatusAll](t, d.ask("GET", "/api/gpu/status/all", "")).GPUs[1].Device.UUID} {
		if s := decode[api.Status](t, d.ask("GET", "/api/gpu/status?gpu="+ref, "")); s.Device.Index != 1 {
			t.Errorf("gpu=%s is device %d, want 1", ref, s.Device.Index)
		}
	}
}

func TestStatusAllCountsSlots(t *testing.T) {
	d := open(t, "2xrtx-4060")
	if w := d.ask("POST", "/api/leases", `{"gpus":2}`); w.Code != http.StatusCreated {
		t.Fatalf("acquire: %d %s", w.Code, w.Body)
	}
	all := decode[api.StatusAll](t, d.ask("GET", "/api/gpu/status/all", ""))
	per := map[string]api.GPUUtilization{}
	for _, g := range all.GPUs {
		per[g.Device.UUID] = api.GPUUtilization{Active: 1, Capacity: 2, Percent: 50}
	}
	want := api.Utilization{TotalGPUs: 2, TotalCapacity: 4, TotalActive: 2, Percent: 50, PerGPU: per}
	if diff := cmp.Diff(want, all.Utilization); diff != "" {
		t.Errorf("utilization (-want +got):\n%s", diff)
	}
}

func TestReadPathsAnswer(t *testing.T) {
	d := open(t, "2xrtx-4060")
	for path, needle := range map[string]string{
		"/api/gpu/metrics?gpu=1":                              `"gpu":"SIM-rtx-4060-1","name":"NVIDIA GeForce RTX 4060 (simulated)","time":`,
		"/api/gpu/metrics?gpu=0":                              `"state":"OPTIMAL"`,
		"/api/gpu/metrics":                                    `"memory_percent":`,
		"/api/gpu/metrics/history?limit=5":                    `"samples":[{`,
		"/api/gpu/metrics/history?since=1m":                   `"samples":[{`,
		"/api/gpu/metrics/history":                            `"covers_seconds":`,
		"/api/gpu/metrics/history?since=2999-01-01T00:00:00Z": `"samples":[],"covers_seconds":0`,
		"/api/gpu/temperature/trend":                          `"minutes":5,"covers_seconds":`,
		"/api/gpu/throttle/status?gpu=1":                      `"should_throttle":false`,
		"/api/gpu/memory/available":                           `"available_mb"`,
		"/api/gpu/config":                                     `"temp_optimal":65`,
		"/api/gpu/config/sources":                             `"fields"`,
		"/healthz":                                            "ok",
		"/readyz":                                             `"ready":true`,
		"/docs":                                               "<!doctype html>",
		"/openapi.json":                                       `"openapi": "3.1`,
	} {
		if w := d.ask("GET", path, ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), needle) {
			t.Errorf("GET %s = %d, without %s:\n%.500s", path, w.Code, needle, w.Body)
		}
	}
}

// The page of the API runs its own script and shows its own style. Nothing else in
// it is run or shown, and nothing in it needs that.
func TestDocsPolicy(t *testing.T) {
	w := open(t, "2xrtx-4060").ask("GET", "/docs", "")
	policy, page := w.Header().Get("Content-Security-Policy"), w.Body.String()
	if strings.Contains(policy, "unsafe") || !strings.HasPrefix(policy, "default-src 'none';") {
		t.Errorf("the policy is %s", policy)
	}
	for _, tag := range []string{"style", "script"} {
		pieces := regexp.MustCompile(`(?s)<`+tag+`\b[^>]*>(.*?)</`+tag+`>`).FindAllStringSubmatch(page, -1)
		if len(pieces) != 1 {
			t.Fatalf("the page has %d of <%s>, and the policy a hash for one", len(pieces), tag)
		}
		sum := sha256.Sum256([]byte(pieces[0][1]))
		if want := tag + "-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "';"; !strings.Contains(policy, want) {
			t.Errorf("the policy %s lacks %s", policy, want)
		}
	}
	if found := regexp.MustCompile(`<[^>]*\s(style|on\w+|href|src)=`).FindString(page); found != "" {
		t.Errorf("the policy forbids what the page has: %s", found)
	}
}

// The index of a device may be a number or text, in every request that names a
// device.
func TestIndexAsANumber(t *testing.T) {
	d := open(t, "2xrtx-4060")
	for body, path := range map[string]string{
		`{"allocation_id":"n","memory_mb":64,"gpu":1}`:   "/api/gpu/memory/allocate",
		`{"allocation_id":"t","memory_mb":64,"gpu":"1"}`: "/api/gpu/memory/allocate",
		`{"id":"ln","memory_mb":64,"gpu":1}`:             "/api/leases",
		`{"id":"lt","memory_mb":64,"gpu":"1"}`:           "/api/leases",
	} {
		w := d.ask("POST", path, body)
		if l := decode[api.Lease](t, w); w.Code != http.StatusCreated || l.Parts[0].GPU != "SIM-rtx-4060-1" {
			t.Errorf("%s: %d %+v", body, w.Code, l)
		}
	}
	if e := decode[api.Explanation](t, d.ask("POST", "/api/leases/explain", `{"memory_mb":64,"slots":0,"gpu":1}`)); !e.Fits || e.Grant.Parts[0].GPU != "SIM-rtx-4060-1" {
		t.Errorf("explained %+v", e)
	}
	for _, body := range []string{`{"pid":1,"gpu":7}`, `{"pid":1,"gpu":"7"}`} {
		if p := decode[api.Problem](t, d.ask("POST", "/api/leases/adopt", body)); p.Code != "unknown_device" {
			t.Errorf("adopt %s: %+v", body, p)
		}
	}
	for _, gpu := range []string{`-1`, `0.5`, `true`, `[0]`, `{}`} {
		p := decode[api.Problem](t, d.ask("POST", "/api/gpu/memory/allocate", `{"allocation_id":"w","memory_mb":64,"gpu":`+gpu+`}`))
		if p.Status != http.StatusUnprocessableEntity || len(p.Fields) != 1 || p.Fields[0].Field != "gpu" {
			t.Errorf("gpu %s: %+v", gpu, p)
		}
	}
}

func TestMonitoringStartsAndStops(t *testing.T) {
	d := open(t, "1xrtx-4060")
	for _, step := range []struct {
		path             string
		running, changed bool
	}{
		{"/api/gpu/monitoring/stop", false, true},
		{"/api/gpu/monitoring/stop", false, false},
		{"/api/gpu/monitoring/start", true, true},
		{"/api/gpu/monitoring/start", true, false},
	} {
		got := decode[api.Monitoring](t, d.ask("POST", step.path, ""))
		if want := (api.Monitoring{Running: step.running, Changed: step.changed, Interval: 1}); got != want {
			t.Errorf("POST %s = %+v, want %+v", step.path, got, want)
		}
	}
}

// Every refusal is a problem document with a code and a sentence, and the next
// request is answered as if nothing had been.
func TestBadInput(t *testing.T) {
	d := open(t, "2xrtx-4060")
	huge := `{"temp_optimal":` + strings.Repeat(" ", 50<<20) + `60}`
	for _, test := range []struct {
		name, method, path, body string
		headers                  []string
		status                   int
		code                     string
	}{
		{name: "unknown device", method: "GET", path: "/api/gpu/status?gpu=7", status: 404, code: "unknown_device"},
		{name: "markup for a device", method: "GET", path: "/api/gpu/status?gpu=%3Cscript%3E", status: 404, code: "unknown_device"},
		{name: "negative minutes", method: "GET", path: "/api/gpu/temperature/trend?minutes=-1", status: 422, code: "invalid_request"},
		{name: "minutes that are no number", method: "GET", path: "/api/gpu/temperature/trend?minutes=NaN", status: 422, code: "invalid_request"},
		{name: "huge limit", method: "GET", path: "/api/gpu/metrics/history?limit=1e9", status: 422, code: "invalid_request"},
		{name: "limit zero", method: "GET", path: "/api/gpu/metrics/history?limit=0", status: 422, code: "invalid_request"},
		{name: "bad since", method: "GET", path: "/api/gpu/metrics/history?since=yesterday", status: 422, code: "invalid_request"},
		{name: "unknown parameter", method: "GET", path: "/api/gpu/status?gpu_id=1", status: 422, code: "invalid_request"},
		{name: "unknown parameter of events", method: "GET", path: "/api/events?user=ada", status: 422, code: "invalid_request"},
		{name: "unknown code of events", method: "GET", path: "/api/events?code=boom", status: 422, code: "invalid_request"},
		{name: "unknown severity of events", method: "GET", path: "/api/events?severity=loud", status: 422, code: "invalid_request"},
		{name: "events of an unknown device", method: "GET", path: "/api/events?gpu=7", status: 404, code: "unknown_device"},
		{name: "events of very many leases", method: "GET", path: "/api/events?follow=false" + strings.Repeat("&lease=a", 65), status: 422, code: "invalid_request"},
		{name: "unknown path", method: "GET", path: "/api/gpu/nothing", status: 404, code: "unknown_path"},
		{name: "wrong method", method: "DELETE", path: "/api/gpu/status", status: 405, code: "method_not_allowed"},
		{name: "half an object", method: "PUT", path: "/api/gpu/config", body: `{"temp_optimal": 6`, status: 400, code: "malformed_body"},
		{name: "no object", method: "PUT", path: "/api/gpu/config", body: `[1]`, status: 400, code: "malformed_body"},
		{name: "no body", method: "PUT", path: "/api/gpu/config", headers: []string{"Content-Type", "application/json"}, status: 400, code: "malformed_body"},
		{name: "50 MB", method: "PUT", path: "/api/gpu/config", body: huge, status: 413, code: "body_too_large"},
		{name: "wrong content type", method: "PUT", path: "/api/gpu/config", body: `{}`, headers: []string{"Content-Type", "text/xml"}, status: 415, code: "unsupported_media_type"},
		{name: "one bad field among ten", method: "PUT", path: "/api/gpu/config", status: 422, code: "invalid_config",
			body: `{"temp_optimal":60,"temp_normal":70,"temp_throttle":80,"temp_critical":88,"memory_optimal":50,"memory_normal":60,"memory_critical":90,"memory_reserve_mb":-1,"history_size":100,"monitor_interval":2}`},
		{name: "thresholds out of order", method: "PUT", path: "/api/gpu/config", body: `{"temp_optimal":80}`, status: 422, code: "invalid_config"},
		{name: "a part that needs a restart", method: "PUT", path: "/api/gpu/config", body: `{"daemon":{"listen":"127.0.0.1:1"}}`, status: 422, code: "invalid_config"},
		{name: "a service twice", method: "PUT", path: "/api/gpu/config", body: `{"services":{"a_b":{},"a-b":{}}}`, status: 422, code: "invalid_config"},
		{name: "nothing to read again", method: "POST", path: "/api/gpu/config/reload", status: 409, code: "not_reloaded"},
		{name: "unknown field", method: "PUT", path: "/api/gpu/config", body: `{"temp_optimum":60}`, status: 422, code: "invalid_config"},
		{name: "event id that is none", method: "GET", path: "/api/events?after=x", status: 422, code: "invalid_request"},
		{name: "follow that is neither", method: "GET", path: "/api/events?follow=maybe", status: 422, code: "invalid_request"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := d.settings.Config.GPU
			w := d.ask(test.method, test.path, test.body, test.headers...)
			p := decode[api.Problem](t, w)
			if w.Code != test.status || p.Status != test.status || p.Code != test.code {
				t.Errorf("answer is %d with code %q, want %d %q:\n%s", w.Code, p.Code, test.status, test.code, w.Body)
			}
			if got := w.Header().Get("Content-Type"); got != problems.MediaType {
				t.Errorf("content type is %q, want %q", got, problems.MediaType)
			}
			if len(p.Detail) < 10 || !strings.Contains(p.Detail, " ") || p.Title == "" {
				t.Errorf("the problem does not say what to do: %+v", p)
			}
			if diff := cmp.Diff(before, d.settings.Config.GPU, cmp.AllowUnexported(gpu.Opt[gpu.MiB]{}, gpu.Opt[gpu.Watts]{}, gpu.Opt[int]{})); diff != "" {
				t.Errorf("something changed (-before +after):\n%s", diff)
			}
			if w := d.ask("GET", "/api/gpu/status", ""); w.Code != http.StatusOK {
				t.Errorf("the next request was answered with %d", w.Code)
			}
		})
	}
}

func TestConfigChangeApplies(t *testing.T) {
	d := open(t, "1xrtx-4060")
	got := decode[api.GPUConfig](t, d.ask("PUT", "/api/gpu/config", `{"temp_optimal":60}`))
	if got.TempOptimal != 60 || got.TempNormal != 75 {
		t.Errorf("after the change the thresholds are %+v", got.Thresholds)
	}
}

// Whoever may only look sees the limits of services, and no names of users and
// programs.
func TestConfigForViewers(t *testing.T) {
	d := open(t, "1xrtx-4060")
	if w := d.ask("PUT", "/api/gpu/config", `{"services":{"embedder":{"priority":3,"users":["ada"],"match":{"program":"secret.py"}}}}`); w.Code != http.StatusOK {
		t.Fatal(w.Body)
	}
	look := func(who access.Actor) string {
		r := httptest.NewRequest("GET", "/api/gpu/config", nil)
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r.WithContext(withIdentity(r.Context(), doorkeeper.IdentityFor(who))))
		return w.Body.String()
	}
	if got := look(viewer()); !strings.Contains(got, `"embedder":{`) || strings.Contains(got, "ada") || strings.Contains(got, "secret.py") {
		t.Errorf("a viewer sees %s", got)
	}
	user := access.Actor{UID: 7, User: "bob", Door: access.Socket, Role: access.User}
	if got := look(user); !strings.Contains(got, "ada") {
		t.Errorf("a user sees %s", got)
	}
}

func TestNoDevices(t *testing.T) {
	d := open(t, "")
	if p := decode[api.Problem](t, d.ask("GET", "/api/gpu/status", "")); p.Code != "no_device" || !strings.Contains(p.Detail, "No GPU was found.") {
		t.Errorf("status without devices: %+v", p)
	}
	if all := decode[api.StatusAll](t, d.ask("GET", "/api/gpu/status/all", "")); all.Note != "No GPU was found." || all.GPUs == nil {
		t.Errorf("status of all without devices: %+v", all)
	}
}

func TestOpenAPICoversEveryRoute(t *testing.T) {
	d := open(t, "")
	doc := decode[struct {
		Paths      map[string]map[string]struct{ Summary string }
		Components struct{ Schemas map[string]any }
	}](t, d.ask("GET", "/openapi.json", ""))
	described := map[string]bool{}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			described[strings.ToUpper(method)+" "+path] = true
			if op.Summary == "" {
				t.Errorf("%s %s has no summary", method, path)
			}
		}
	}
	for _, route := range d.routes {
		if !described[route] {
			t.Errorf("%s is served and not described", route)
		}
		delete(described, route)
	}
	for route := range described {
		t.Errorf("%s is described and not served", route)
	}
	if _, theirs := doc.Components.Schemas["ErrorModel"]; theirs {
		t.Error("the framework's error is described beside our own")
	}
}

// stream opens the event stream over a real connection.
func stream(t *testing.T, d *door, query, last string) (*bufio.Scanner, func()) {
	t.Helper()
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/api/events"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	answer, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = answer.Body.Close() })
	if got := answer.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("content type %q", got)
	}
	return bufio.NewScanner(answer.Body), cancel
}

func nextID(t *testing.T, lines *bufio.Scanner) string {
	t.Helper()
	for lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			return id
		}
	}
	t.Fatalf("the stream ended: %v", lines.Err())
	return ""
}

func TestEventsFollowAndResume(t *testing.T) {
	d := open(t, "")
	d.events.Publish(gpu.Event{Code: gpu.EventConfig, Text: "a"})
	lines, stop := stream(t, d, "", "")
	if id := nextID(t, lines); id != "1000" {
		t.Errorf("the first event has id %s, want 1000", id)
	}
	d.events.Publish(gpu.Event{Code: gpu.EventConfig, Text: "b\nwith a line break"})
	if id := nextID(t, lines); id != "1001" {
		t.Errorf("the second event has id %s, want 1001", id)
	}
	stop()
	d.events.Publish(gpu.Event{Code: gpu.EventConfig, Text: "c"})
	lines, _ = stream(t, d, "", "1001")
	if id := nextID(t, lines); id != "1002" {
		t.Errorf("resumed at %s, want 1002", id)
	}
	// A browser repeats the address it began with, and says how far it came.
	lines, _ = stream(t, d, "?after=999", "1001")
	if id := nextID(t, lines); id != "1002" {
		t.Errorf("resumed at %s, want 1002: the header is newer than the address", id)
	}
}

func TestEventsWithoutFollowingEnd(t *testing.T) {
	d := open(t, "")
	d.events.Publish(gpu.Event{Code: gpu.EventConfig, Severity: gpu.Note, Text: "a"})
	w := d.ask("GET", "/api/events?follow=false", "")
	want := "id: 1000\nevent: config\ndata: " + `{"id":1000,"time":"0001-01-01T00:00:00Z","code":"config","severity":"info","text":"a"}` + "\n\n"
	if got := w.Body.String(); got != want {
		t.Errorf("stream is %q, want %q", got, want)
	}
}

func TestAMistakeOfOursIsOneProblem(t *testing.T) {
	d := open(t, "")
	d.Note = func() string { panic("a mistake") }
	for _, path := range []string{"/api/gpu/status/all", "/api/report"} { // the report asks for the status
		if w := d.ask("GET", path, ""); w.Code != 500 || decode[api.Problem](t, w).Code != "internal" {
			t.Errorf("%s is answered with %d: %s", path, w.Code, w.Body)
		}
	}
	if w := d.ask("GET", "/healthz", ""); w.Code != 200 {
		t.Errorf("the next request was answered with %d", w.Code)
	}
	if w := d.ask("GET", "/readyz", ""); w.Code != 200 || !strings.HasPrefix(decode[api.Ready](t, w).Faults, "2 times") {
		t.Errorf("/readyz says %s", w.Body)
	}
}
