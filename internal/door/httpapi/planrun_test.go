package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

func TestRunAsPlanned(t *testing.T) {
	d := openPlans(t, "2xrtx-4060")
	plan := d.ask("POST", "/api/plans", wells(3, `,"service":"screening"`)).Body.String()
	w := d.asUser(t, "/api/plans/run", `{"plan":`+plan+`,"runs":["plate[1]"],"id":"well-1"}`)
	got := decode[api.PlanRunning](t, w)
	if w.Code != http.StatusCreated || len(got.Runs) != 1 || got.Plan != nil {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	run, planned := got.Runs[0], decodeText[api.Plan](t, plan).Pipelines[0].Runs[1]
	if run.Placement != "confirmed" || run.Reason != "" || run.Lease.Parts[0] != (api.LeasePart{GPU: planned.GPU, Memory: 1600, Slots: 1}) {
		t.Errorf("run %+v, lease %+v", run, run.Lease)
	}
	if l := run.Lease; l.ID != "well-1" || l.Binding != "process" || l.Holder.PID != os.Getpid() || l.Holder.Name != "plate" || l.Holder.Service != "screening" {
		t.Errorf("the lease is %+v", l)
	}
	events, _ := d.events.Kept(0)
	last := events[len(events)-1]
	if last.Code != gpu.EventPlan || last.Lease != run.Lease.ID || last.Text != "plate[1] runs on GPU 1 as planned, for ada" {
		t.Errorf("the last event is %s: %s", last.Code, last.Text)
	}
}

// A launcher is told what the environment of the run is made from.
func TestRunForALauncher(t *testing.T) {
	d := openPlans(t, "1xrtx-4060")
	run := decode[api.PlanRunning](t, d.asUser(t, "/api/plans/run", strings.TrimSuffix(wells(1, ""), "}")+`,"enforce":"auto"}`)).Runs[0]
	if l := run.Lease; l.EnforcedBy != "framework" || l.Launch == nil || len(l.Launch.Devices) != 1 || l.Launch.Devices[0].UUID != l.Parts[0].GPU {
		t.Errorf("the lease is %+v", l)
	}
}

func decodeText[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestRunElsewhereWhenTheWorldHasChanged(t *testing.T) {
	for _, test := range []struct{ name, taken, want string }{
		{"no slot", `"slots":2`, "GPU 0: needs 1 slot, and all 2 are taken"},
		{"no memory", `"slots":0,"memory_mb":7000`, "GPU 0: needs 1.563 GiB and has 0.407 GiB"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := openPlans(t, "2xrtx-4060")
			ids := d.ids(t)
			plan := d.ask("POST", "/api/plans", wells(1, "")).Body.String()
			if w := d.ask("POST", "/api/leases", `{"gpu":"`+ids[0]+`",`+test.taken+`}`); w.Code != http.StatusCreated {
				t.Fatal(w.Body)
			}
			run := decode[api.PlanRunning](t, d.asUser(t, "/api/plans/run", `{"plan":`+plan+`}`)).Runs[0]
			if run.Placement != "remade" || run.Planned != ids[0] || run.Lease.Parts[0].GPU != ids[1] || run.Reason != test.want {
				t.Errorf("run %+v, lease %+v", run, run.Lease)
			}
		})
	}
}

// A device that the libraries of a pipeline do not see is no way out.
func TestRunKeepsToTheCandidates(t *testing.T) {
	d := openPlans(t, "2xrtx-4060")
	ids := d.ids(t)
	plan := decode[api.Plan](t, d.ask("POST", "/api/plans", wells(2, "")))
	plan.Pipelines[0].Candidates = ids[:1]
	d.ask("POST", "/api/leases", `{"gpu":"`+ids[0]+`","slots":2}`)
	text, _ := json.Marshal(plan)
	w := d.asUser(t, "/api/plans/run", `{"plan":`+string(text)+`}`)
	if p := decode[api.Problem](t, w); w.Code != http.StatusConflict || p.Code != "no_slot" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestRunNoMoreThanThereAreSlots(t *testing.T) {
	d := openPlans(t, "2xrtx-4060")
	body := strings.TrimSuffix(wells(6, ""), "]}") + `,{"name":"summary","steps":[{"name":"collect","input":"numpy","output":"numpy"}]}]}`
	w := d.asUser(t, "/api/plans/run", body)
	got := decode[api.PlanRunning](t, w)
	var placements []string
	for _, run := range got.Runs {
		placements = append(placements, run.Placement)
		if (run.Lease != nil) != (run.Placement == "confirmed") || (run.Problem != nil) != (run.Placement == "refused") {
			t.Errorf("%s: %+v", run.Name, run)
		}
	}
	if want := []string{"confirmed", "confirmed", "confirmed", "confirmed", "refused", "refused", "none"}; !slices.Equal(placements, want) {
		t.Errorf("placements %v, want %v", placements, want)
	}
	if got.Plan == nil || got.Plan.Waves != 2 {
		t.Errorf("the plan that was made is %+v", got.Plan)
	}
	// Nothing is left: now the answer is the refusal itself.
	w = d.asUser(t, "/api/plans/run", wells(1, ""))
	if p := decode[api.Problem](t, w); w.Code != http.StatusConflict || p.Code != "no_slot" || p.Extra["possible"] != true {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Two wells have their slot and the third waits when the caller leaves: nobody
// will ever know of the two.
func TestRunForSomebodyWhoLeaves(t *testing.T) {
	d := openPlans(t, "1xrtx-4060")
	ctx, leave := context.WithCancel(t.Context())
	answered := make(chan *httptest.ResponseRecorder)
	go func() {
		answered <- d.asUserIn(ctx, t, "/api/plans/run", strings.TrimSuffix(wells(3, ""), "}")+`,"timeout_seconds":600}`)
	}()
	for leases, waiting := 0, 0; leases != 2 || waiting != 1; leases, waiting = d.Ledger.Len() {
		runtime.Gosched()
	}
	leave()
	<-answered
	if leases, waiting := d.Ledger.Len(); leases+waiting != 0 {
		t.Errorf("%d leases and %d requests are left behind", leases, waiting)
	}
}

func TestRunOnlyForOwnProcesses(t *testing.T) {
	d := openPlans(t, "1xrtx-4060")
	w := d.askAs(user(os.Getuid()+1), "POST", "/api/plans/run", strings.TrimSuffix(wells(1, ""), "}")+fmt.Sprintf(`,"pid":%d}`, os.Getpid()))
	if p := decode[api.Problem](t, w); w.Code != http.StatusForbidden || p.Code != "not_yours" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
