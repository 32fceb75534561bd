package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/config"
)

// testNow is when every test takes place.
var testNow = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// fakeDaemon answers in the shapes of the real one, with fixed devices.
type fakeDaemon struct {
	http.Handler
	status api.StatusAll

	mu       sync.Mutex // guards settings
	settings *config.Settings
}

func newFakeDaemon(host string) *fakeDaemon {
	settings, err := config.Merge(config.Paths("/var/lib/berth", "/run/berth/berth.sock"))
	if err != nil {
		panic(err)
	}
	d := &fakeDaemon{status: fakeStatus(host), settings: settings}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, api.Ready{Ready: true}) })
	mux.HandleFunc("GET /api/gpu/status", d.one)
	mux.HandleFunc("GET /api/gpu/status/all", func(w http.ResponseWriter, _ *http.Request) { answer(w, d.status) })
	mux.HandleFunc("GET /api/gpu/metrics/history", d.history)
	mux.HandleFunc("GET /api/gpu/config", func(w http.ResponseWriter, _ *http.Request) { answer(w, d.current().Config.GPU) })
	mux.HandleFunc("PUT /api/gpu/config", d.change)
	mux.HandleFunc("GET /api/gpu/config/sources", d.sources)
	mux.HandleFunc("GET /api/events", fakeEvents)
	d.leaseRoutes(mux)
	d.Handler = mux
	return d
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, p api.Problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

func (d *fakeDaemon) find(w http.ResponseWriter, r *http.Request) (api.Status, bool) {
	ref := r.URL.Query().Get("gpu")
	for _, s := range d.status.GPUs {
		if ref == "" || ref == s.Device.UUID || ref == strconv.Itoa(s.Device.Index) {
			return s, true
		}
	}
	refuse(w, api.Problem{Status: 404, Code: "unknown_device", Detail: fmt.Sprintf("There is no device %q here.", ref)})
	return api.Status{}, false
}

func (d *fakeDaemon) one(w http.ResponseWriter, r *http.Request) {
	if s, ok := d.find(w, r); ok {
		answer(w, s)
	}
}

// history is three samples of every device, a minute apart.
func (d *fakeDaemon) history(w http.ResponseWriter, r *http.Request) {
	s, ok := d.find(w, r)
	if !ok {
		return
	}
	since, _ := time.Parse(time.RFC3339, r.URL.Query().Get("since"))
	found := api.Samples{Samples: []gpu.Sample{}}
	for ago := 2; ago >= 0 && s.Sample != nil; ago-- {
		sample := *s.Sample
		if sample.Time = testNow.Add(-time.Duration(ago) * time.Minute); !sample.Time.Before(since) {
			found.Samples = append(found.Samples, sample)
		}
	}
	answer(w, found)
}

func (d *fakeDaemon) current() *config.Settings {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.settings
}

func (d *fakeDaemon) change(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	next, _, err := d.settings.Change(body)
	if wrong := (*config.Error)(nil); errors.As(err, &wrong) {
		p := api.Problem{Status: 422, Code: "invalid_config", Detail: "The configuration was refused. Nothing was changed."}
		for _, c := range wrong.Complaints {
			p.Fields = append(p.Fields, api.FieldProblem{Field: c.Field, Detail: c.Reason})
		}
		refuse(w, p)
		return
	}
	d.settings = next
	answer(w, next.Config.GPU)
}

func (d *fakeDaemon) sources(w http.ResponseWriter, _ *http.Request) {
	var fields api.ConfigFields
	for _, s := range d.current().All() {
		fields.Fields = append(fields.Fields, api.ConfigField{Field: s.Name, Value: s.Value, Unit: s.Unit, Source: s.Source, Doc: s.Doc})
	}
	answer(w, fields)
}

// fakeEvents sends three events and ends, whoever follows or not: a reader that
// follows comes back and finds nothing new.
func fakeEvents(w http.ResponseWriter, r *http.Request) {
	last, _ := strconv.ParseUint(r.Header.Get("Last-Event-ID"), 10, 64)
	for _, e := range []gpu.Event{
		{ID: 41, Time: testNow.Add(-2 * time.Hour), Code: gpu.EventDeviceFound, Severity: gpu.Note, Text: "GPU 0 (NVIDIA H200) was found: 140 GiB of memory"},
		{ID: 42, Time: testNow.Add(-time.Minute), Code: gpu.EventThrottle, Severity: gpu.Warning, GPU: "GPU-1", Text: "GPU 1 (NVIDIA RTX 6000 Ada Generation) should run at 50 % of full speed: 81 °C is above temp_normal"},
		{ID: 43, Time: testNow.Add(-30 * time.Second), Code: gpu.EventCritical, Severity: gpu.Serious, GPU: "GPU-2", Lease: "train-7", Text: "GPU 2 must rest: \x1b[2Jmemory is at 99 %"},
	} {
		if e.ID > last && (gpu.EventFilter{Severity: gpu.Severity(r.URL.Query().Get("severity"))}).Matches(e) {
			data, _ := json.Marshal(e)
			fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", e.ID, e.Code, data)
		}
	}
}
