package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
	"github.com/berth-gpu/berth/internal/lease"
)

// garage parks leases by writing down that it did.
type garage struct {
	mu      sync.Mutex
	moved   map[uint64]move.Status
	refuse  error // what every call returns; nil: it succeeds
	waited  gpu.Opt[time.Duration]
	resumed int
}

func (g *garage) Park(_ context.Context, _ lease.Key, fence uint64, by access.Actor, why string, _ bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refuse == nil {
		g.moved[fence] = move.Status{Phase: move.Parked, Since: time.Unix(1e9, 0), By: lease.ByOf(by), Why: why, Host: 1024, Times: 1, Moving: 2500 * time.Millisecond, Failed: "pid 7 did not answer"}
	}
	return g.refuse
}

func (g *garage) Resume(_ context.Context, _ lease.Key, fence uint64, by access.Actor, why string, wait gpu.Opt[time.Duration]) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refuse == nil {
		g.moved[fence] = move.Status{Phase: move.Resuming, Since: time.Unix(1e9, 0), By: lease.ByOf(by), Why: why, Times: 1, Moving: 3 * time.Second}
		g.waited = wait
		g.resumed++
	}
	return g.refuse
}

func (g *garage) Wake(ctx context.Context, k lease.Key, fence uint64) error {
	return g.Resume(ctx, k, fence, access.Daemon(), "its program asks for it", gpu.Opt[time.Duration]{})
}

func (g *garage) Kept(*lease.Lease) string { return "" }

func (g *garage) Of(fence uint64) (move.Status, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s, ever := g.moved[fence]
	return s, ever
}

// sweeper optimizes nothing, and says which leases it was allowed to.
type sweeper struct {
	mu     sync.Mutex
	asked  []api.Optimize
	leases []*lease.Lease // to be shown
}

func (s *sweeper) Optimize(_ context.Context, _ access.Actor, b api.Optimize, may func(*lease.Lease) bool) (api.Optimization, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, b)
	rung := api.Rung{Name: "trim", Done: []api.RungStep{}, Left: []api.RungStep{}}
	for _, l := range s.leases {
		step := api.RungStep{Lease: l.ID, User: l.Holder.User, PID: l.Holder.PID, Text: l.Holder.Name + " was asked"}
		if may(l) {
			rung.Done = append(rung.Done, step)
		} else {
			rung.Left = append(rung.Left, step)
		}
	}
	return api.Optimization{Service: b.Service, DryRun: b.DryRun, Rungs: []api.Rung{rung}, Devices: []api.Reclaimed{}}, nil
}

// send makes a request as somebody; nil: as who runs the test.
func (d *door) send(by *doorkeeper.Identity, path, body string) *httptest.ResponseRecorder {
	d.t.Helper()
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if by != nil {
		r = r.WithContext(withIdentity(r.Context(), *by))
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w
}

// What cannot be done is refused with a code, and nothing is moved.
func TestParkRefuses(t *testing.T) {
	d := open(t, "1xrtx-4060")
	if w := d.ask("POST", "/api/gpu/memory/allocate", `{"allocation_id":"work","memory_mb":1024}`); w.Code != http.StatusCreated {
		t.Fatalf("allocate: %d %s", w.Code, w.Body)
	}
	eve := new(holding(lease.Holder{UID: 4711, User: "eve"}, access.User))
	viewer := new(holding(lease.Holder{UID: 4712, User: "vic"}, access.Viewer))
	us := loginName(os.Getuid())
	for _, test := range []struct {
		name, path, body string
		by               *doorkeeper.Identity
		status           int
		code             string
	}{
		{"park what is not there", "/api/leases/nothing/park", "", nil, 404, "unknown_allocation"},
		{"resume what is not there", "/api/leases/nothing/resume", "{}", nil, 404, "unknown_allocation"},
		{"wake what is not there", "/api/leases/nothing/wake", "", nil, 404, "unknown_allocation"},
		{"park another user's", "/api/leases/work/park", "", eve, 404, "unknown_allocation"},
		{"park another user's by name", "/api/leases/work/park?user=" + us, "", eve, 403, "not_yours"},
		{"resume another user's by name", "/api/leases/work/resume?user=" + us, "", eve, 403, "not_yours"},
		{"wake another user's by name", "/api/leases/work/wake?user=" + us, "", eve, 403, "not_yours"},
		{"a viewer parks", "/api/leases/work/park", "", viewer, 403, "not_allowed"},
		{"a viewer optimizes", "/api/optimize", "", viewer, 403, "not_allowed"},
		{"an old fence", "/api/leases/work/park", `{"fence":99}`, nil, 409, "stale_fence"},
		{"resume with an old fence", "/api/leases/work/resume", `{"fence":99}`, nil, 409, "stale_fence"},
		{"a negative time", "/api/leases/work/resume", `{"timeout_seconds":-1}`, nil, 422, "invalid_request"},
		{"a time without end", "/api/leases/work/resume", `{"timeout_seconds":1e12}`, nil, 422, "invalid_request"},
		{"a time in words", "/api/leases/work/resume", `{"timeout_seconds":"soon"}`, nil, 422, "invalid_request"},
		{"a field that there is not", "/api/leases/work/park", `{"gpu":1}`, nil, 422, "invalid_request"},
		{"a long reason", "/api/leases/work/park", `{"reason":"` + strings.Repeat("x", 257) + `"}`, nil, 422, "invalid_request"},
		{"half a body", "/api/leases/work/park", `{"fence":`, nil, 400, "malformed_body"},
		{"a service nobody knows", "/api/optimize", `{"service":"nobody"}`, nil, 404, "unknown_service"},
		{"a service that cannot be", "/api/optimize", `{"service":"a\u0007b"}`, nil, 422, "invalid_request"},
		{"a field that optimize has not", "/api/optimize", `{"force":true}`, nil, 422, "invalid_request"},
	} {
		w := d.send(test.by, test.path, test.body)
		if w.Code != test.status || decode[api.Problem](t, w).Code != test.code {
			t.Errorf("%s: %d %s, want %d %s", test.name, w.Code, w.Body, test.status, test.code)
		}
	}
	if len(d.garage.moved) > 0 || len(d.sweeper.asked) > 0 {
		t.Errorf("moved %v, optimized %v", d.garage.moved, d.sweeper.asked)
	}

	d.garage.refuse = &move.RefusedError{Do: "park", ID: "work", Code: move.NoHost, Why: "the machine has 3 GiB free", Next: "Raise optimization.park_host_mb."}
	w := d.send(nil, "/api/leases/work/park", "")
	p := decode[api.Problem](t, w)
	if w.Code != 409 || p.Code != "no_host_memory" || p.Detail != "Cannot park work: the machine has 3 GiB free. Raise optimization.park_host_mb." {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// A lease says where its memory is, and others do not see who moved it, or why.
func TestParkAndResume(t *testing.T) {
	d := open(t, "1xrtx-4060")
	if w := d.ask("POST", "/api/gpu/memory/allocate", `{"allocation_id":"work","memory_mb":1024}`); w.Code != http.StatusCreated {
		t.Fatalf("allocate: %d %s", w.Code, w.Body)
	}
	l := decode[api.Lease](t, d.send(nil, "/api/leases/work/park", `{"reason":"night"}`))
	if l.Parking == nil || l.Parking.Why != "night" || l.Parking.By.User == "" || l.Parking.Host != 1024 || l.Parking.Moving != 2.5 || l.Parking.Failed == "" {
		t.Fatalf("parked: %+v %+v", l, l.Parking)
	}
	d.garage.moved[l.Fence] = move.Status{Phase: move.Parking, Why: "night", By: gpu.By{User: "ada"}, Failed: "pid 7 did not answer"}
	for who, by := range map[string]*doorkeeper.Identity{
		"owner": nil, "user": new(holding(lease.Holder{UID: 4711, User: "eve"}, access.User)), "operator": new(holding(lease.Holder{UID: 4712, User: "olga"}, access.Operator)),
	} {
		r := httptest.NewRequest("GET", "/api/leases/work", nil)
		if by != nil {
			r = r.WithContext(withIdentity(r.Context(), *by))
		}
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		seen := decode[api.Lease](t, w)
		if seen.State != "parking" || seen.Parking == nil {
			t.Fatalf("%s sees %s", who, w.Body)
		}
		named := seen.Parking.By.User != "" && seen.Parking.Why != "" && strings.Contains(seen.Parking.Failed, "pid")
		if named != (who != "user") || seen.Parking.Failed == "" {
			t.Errorf("%s sees %+v", who, seen.Parking)
		}
	}
	back := decode[api.Lease](t, d.send(nil, "/api/leases/work/resume", ""))
	if back.State != "resuming" || d.garage.waited != gpu.Some(time.Minute) {
		t.Errorf("resumed: %+v, waited %v", back, d.garage.waited)
	}
	d.send(nil, "/api/leases/work/resume", `{"timeout_seconds":0}`)
	if d.garage.waited != gpu.Some(time.Duration(0)) {
		t.Errorf("waited %v", d.garage.waited)
	}
	if w := d.send(nil, "/api/leases/work/wake", "{}"); w.Code != 200 || d.garage.waited.Known() || d.garage.resumed != 3 {
		t.Errorf("wake: %d %s, resumed %d times, waited %v", w.Code, w.Body, d.garage.resumed, d.garage.waited)
	}
}

// Users get memory back from their own leases only, and see nothing of the programs
// of others.
func TestOptimize(t *testing.T) {
	d := open(t, "1xrtx-4060")
	d.sweeper.leases = []*lease.Lease{
		{ID: "mine", Holder: lease.Holder{UID: 4711, User: "eve", Name: "train.py", PID: 11}},
		{ID: "theirs", Holder: lease.Holder{UID: 4712, User: "ada", Name: "secret.py", PID: 12}},
	}
	eve := new(holding(lease.Holder{UID: 4711, User: "eve"}, access.User))
	w := d.send(eve, "/api/optimize", `{"service":"embedder","dry_run":true}`)
	found := decode[api.Optimization](t, w)
	if w.Code != 200 || !found.DryRun || found.Service != "embedder" || len(found.Rungs) != 1 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	done, left := found.Rungs[0].Done, found.Rungs[0].Left
	if len(done) != 1 || done[0].Lease != "mine" || done[0].PID != 11 || len(left) != 1 || left[0].Lease != "theirs" {
		t.Errorf("%s", w.Body)
	}
	if strings.Contains(w.Body.String(), "secret") || left[0].PID != 0 || left[0].User != "ada" {
		t.Errorf("eve sees %+v", left)
	}
	all := decode[api.Optimization](t, d.send(nil, "/api/optimize", ""))
	if done := all.Rungs[0].Done; len(done) != 2 || done[1].PID != 12 {
		t.Errorf("an administrator sees %+v", all.Rungs[0])
	}
}
