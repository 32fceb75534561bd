package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	osuser "os/user"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/desk/tokens"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/job/keeper"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/minder"
	"github.com/berth-gpu/berth/internal/process/runs"
)

// withJobs lets the daemon of a gate take jobs. No minder ever comes.
func (g *gate) withJobs(t *testing.T) *gate {
	t.Helper()
	if me, err := process.Proc().Identify(os.Getpid()); err != nil || !process.Proc().SeesOurFiles(me) {
		t.Skip("the test is in a mount namespace of its own")
	}
	number := int64(0)
	k, err := keeper.Open(keeper.Options{
		Folder: filepath.Join(t.TempDir(), "environments"), Boot: "boot", Minders: noMinders{},
		Numbers: func() (int64, error) { number++; return number, nil },
		Limits:  func(int, string) keeper.Limits { return keeper.Limits{} },
		Publish: g.events.Publish, Log: slog.New(slog.DiscardHandler),
		Open: func(func(journal.Entry) error) (journal.Journal, error) { return journal.Forgetful(), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	g.desk.Jobs, g.desk.Logs = k, noMinders{}
	g.remake()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	run := g.Desk.Jobs.Run
	go func() { defer close(done); _ = run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return g
}

// noMinders starts nothing and reads nothing.
type noMinders struct{}

func (noMinders) Start(context.Context, string, runs.Limits) (process.ID, error) {
	return process.ID{}, nil
}
func (noMinders) Read(string) (runs.Record, bool, error)   { return runs.Record{}, false, nil }
func (noMinders) Kill(process.ID) error                    { return nil }
func (noMinders) Remove(string) error                      { return nil }
func (noMinders) List() ([]string, error)                  { return nil, nil }
func (noMinders) Watch(process.ID, func()) (func(), error) { return func() {}, nil }
func (noMinders) CanLimit() error                          { return nil }
func (noMinders) ReadLog(context.Context, minder.Reading, <-chan struct{}, func(int64), io.Writer) error {
	return errors.New("there is no log")
}

// as makes a request as a peer of the kernel.
func (g *gate) as(p access.Peer, method, path, body string) (int, api.Problem, string) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	g.door.ServeHTTP(w, r.WithContext(doorkeeper.With(r.Context(), g.keeper.Caller(p, "127.0.0.1"))))
	var problem api.Problem
	_ = json.Unmarshal(w.Body.Bytes(), &problem) // an answer is no problem
	return w.Code, problem, w.Body.String()
}

// onSocket returns a user on the Unix socket, whose process is this one.
func onSocket(uid int) access.Peer {
	me, _ := process.Proc().Identify(os.Getpid())
	return access.Peer{Caller: access.Caller{Door: access.Socket, UID: access.KnownUID(uid), Place: access.Here}, PID: me.PID, Start: me.Start}
}

const heldJob = `{"command":["true","secret-word"],"name":"train","environment":["A=secret-variable"],"directory":"/secret","hold":true}`

// jobsThere returns the ids and states of all jobs.
func (g *gate) jobsThere(t *testing.T) string {
	t.Helper()
	code, _, text := g.as(onSocket(os.Geteuid()), "GET", "/api/jobs", "")
	var all api.Jobs
	if err := json.Unmarshal([]byte(text), &all); err != nil || code != http.StatusOK {
		t.Fatalf("%d %s", code, text)
	}
	var list []string
	for _, j := range all.Jobs {
		list = append(list, fmt.Sprint(j.ID, " ", j.State, " ", j.Priority))
	}
	return strings.Join(list, ", ")
}

// Through the doors, only a user whom the kernel names on the socket, in the namespaces
// of the machine, has berth run something.
func TestWhoSubmits(t *testing.T) {
	g := gates(t, &access.Rules{Daemon: os.Geteuid()}).withJobs(t)
	me := onSocket(os.Geteuid())
	peer := func(change func(*access.Peer)) access.Peer { p := me; change(&p); return p }
	status, _, text := g.as(me, "POST", "/api/jobs", heldJob)
	var mine api.Job
	if err := json.Unmarshal([]byte(text), &mine); err != nil || status != http.StatusCreated || mine.State != "held" || strings.Contains(text, "secret-variable") {
		t.Fatalf("%d %s", status, text)
	}
	before := g.jobsThere(t)
	for what, p := range map[string]access.Peer{
		"a container":              peer(func(p *access.Peer) { p.Place = access.Elsewhere }),
		"a place that is unknown":  peer(func(p *access.Peer) { p.Place = access.Unknown }),
		"a uid that is unknown":    peer(func(p *access.Peer) { p.UID = access.UID{} }),
		"a process that is gone":   peer(func(p *access.Peer) { p.PID = 0 }),
		"TCP without a session":    peer(func(p *access.Peer) { p.Door = access.TCP }),
		"TCP from who knows where": {Caller: access.Caller{Door: access.TCP}},
	} {
		for _, path := range []string{"/api/jobs", "/api/jobs/" + mine.ID + "/redo", "/api/jobs/" + mine.ID + "/unhold"} {
			body := ""
			if path == "/api/jobs" {
				body = heldJob
			}
			if status, problem, text := g.as(p, "POST", path, body); status != http.StatusForbidden || problem.Detail == "" {
				t.Errorf("%s, %s: %d %s", what, path, status, text)
			}
		}
		if now := g.jobsThere(t); now != before {
			t.Errorf("%s has changed %s into %s", what, before, now)
		}
	}
	for _, role := range []access.Role{access.User, access.Operator, access.Admin} {
		secret := g.make(t, tokens.Token{Name: "ci-" + role.String(), Role: role})
		for door, dial := range g.doors() {
			answer, text := ask(t, dial, "POST", "/api/jobs", heldJob, "Authorization", "Bearer "+secret)
			if answer.StatusCode != http.StatusForbidden || !strings.Contains(text, "cannot_run") {
				t.Errorf("a token of role %s on the %s: %d %s", role, door, answer.StatusCode, text)
			}
		}
	}
	if now := g.jobsThere(t); now != before {
		t.Errorf("tokens have changed %s into %s", before, now)
	}
}

// The page runs programs for its user, and never as root.
func TestWhoSubmitsOnThePage(t *testing.T) {
	g := browsers(t, &access.Rules{Daemon: os.Geteuid()}).withJobs(t)
	p := &page{t: t, dial: g.doors()["tcp"]}
	p.signIn(`{"code":"` + g.code(t, g.doors()["socket"]) + `"}`)
	answer, text := p.ask("POST", "/api/jobs", heldJob)
	if os.Geteuid() != 0 {
		if answer.StatusCode != http.StatusCreated {
			t.Errorf("%d %s", answer.StatusCode, text)
		}
		return
	}
	if answer.StatusCode != http.StatusForbidden || !strings.Contains(text, "cannot_run") || g.jobsThere(t) != "" {
		t.Errorf("root on the page: %d %s", answer.StatusCode, text)
	}
}

// The ids of others tell what everybody may know, and let nobody do anything.
func TestJobsOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only a daemon of root runs the jobs of several users")
	}
	const ada, eve = 70001, 70002
	g := gates(t, &access.Rules{Daemon: 0}).withJobs(t)
	if status, _, text := g.as(onSocket(ada), "POST", "/api/jobs", heldJob); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	before := g.jobsThere(t)
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{"GET", "/api/jobs/train-1", "", http.StatusOK},
		{"GET", "/api/jobs?user=70001", "", http.StatusOK},
		{"GET", "/api/jobs/train-2", "", http.StatusNotFound},
		{"GET", "/api/jobs/train-1.1", "", http.StatusNotFound},
		{"GET", "/api/jobs/..%2f1", "", http.StatusNotFound},
		{"GET", "/api/jobs/train-1/log", "", http.StatusForbidden},
		{"GET", "/api/jobs/train-1/log?lines=-1", "", http.StatusUnprocessableEntity},
		{"POST", "/api/jobs/train-1/cancel", "", http.StatusForbidden},
		{"POST", "/api/jobs/train-1/hold", "", http.StatusForbidden},
		{"POST", "/api/jobs/train-1/unhold", "", http.StatusForbidden},
		{"POST", "/api/jobs/train-1/redo", "", http.StatusForbidden},
		{"POST", "/api/jobs/train-1/priority", `{"priority":-1}`, http.StatusForbidden},
		{"POST", "/api/jobs/minder", `{"run":"1.0.1","version":1}`, http.StatusForbidden},
		{"POST", "/api/jobs/train-1/cancel", `{"reason":"` + strings.Repeat("x", 257) + `"}`, http.StatusUnprocessableEntity},
	} {
		status, _, text := g.as(onSocket(eve), c.method, c.path, c.body)
		if status != c.want || strings.Contains(text, "secret") {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, text)
		}
	}
	if now := g.jobsThere(t); now != before {
		t.Errorf("eve has changed %s into %s", before, now)
	}
	if status, problem, text := g.as(onSocket(0), "POST", "/api/jobs/minder", `{"run":"1.0.1","version":1}`); status != http.StatusConflict || problem.Code != "no_order" {
		t.Errorf("root, who minds no run: %d %s", status, text)
	}
	kept, _ := g.events.Kept(0)
	for _, e := range kept {
		if text := fmt.Sprintf("%+v", e); e.Code == gpu.EventJobSubmitted && strings.Contains(text, "secret") {
			t.Errorf("an event says %s", text)
		}
	}
}

// What the schema refuses of a job.
func TestJobFieldsAreBounded(t *testing.T) {
	g := gates(t, &access.Rules{Daemon: os.Geteuid()}).withJobs(t)
	for what, body := range map[string]string{
		"no command":          `{}`,
		"an unknown field":    `{"command":["true"],"uid":0}`,
		"a user":              `{"command":["true"],"user":"root"}`,
		"a long word":         `{"command":["` + strings.Repeat("x", 128<<10+1) + `"]}`,
		"a long array":        `{"command":["true"],"array":"` + strings.Repeat("1,", 513) + `"}`,
		"a bad parameter":     `{"command":["true"],"params":[{"name":"A=B","values":["1"]}]}`,
		"no values":           `{"command":["true"],"params":[{"name":"a","values":[]}]}`,
		"requeue for ever":    `{"command":["true"],"requeue":"ever"}`,
		"a begin in words":    `{"command":["true"],"begin":"tomorrow"}`,
		"CPUs below 0":        `{"command":["true"],"cpus":-1}`,
		"memory below 0":      `{"command":["true"],"host_memory_mb":-1}`,
		"more than the GPU":   `{"command":["true"],"compute_percent":101}`,
		"a lease of no GPUs":  `{"command":["true"],"lease":{"gpus":-1}}`,
		"priority as a text":  `{"command":["true"],"lease":{"priority":"high"}}`,
		"a command in words":  `{"command":"true"}`,
		"too many parameters": `{"command":["true"],"params":[` + strings.TrimSuffix(strings.Repeat(`{"name":"a","values":["1"]},`, 33), ",") + `]}`,
	} {
		status, problem, text := g.as(onSocket(os.Geteuid()), "POST", "/api/jobs", body)
		if status != http.StatusUnprocessableEntity || len(problem.Fields) == 0 {
			t.Errorf("%s: %d %.300s", what, status, text)
		}
	}
	if there := g.jobsThere(t); there != "" {
		t.Errorf("there is %s", there)
	}
}

// Whoever submits a job that waits for room now is told that nobody knows when it starts.
// Whether there is room when others have ended, or at an hour, is not known yet.
func TestSubmitSaysThatAStartIsUnknown(t *testing.T) {
	g := gates(t, &access.Rules{Daemon: 0}).withJobs(t)
	me := onSocket(os.Geteuid())
	if status, _, text := g.as(me, "POST", "/api/gpu/memory/allocate", `{"allocation_id":"standing","memory_mb":6144,"binding":"named"}`); status != http.StatusCreated && status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	for _, c := range []struct {
		fields string
		told   bool
	}{
		{``, true},
		{`,"hold":true`, false},
		{`,"begin":"` + time.Now().Add(24*time.Hour).Format(time.RFC3339) + `"`, false},
		{`,"begin":"2001-01-01T22:00:00Z"`, true},
		{`,"after_any":["a-1"]`, false},
	} {
		status, _, text := g.as(me, "POST", "/api/jobs", `{"name":"a","command":["true"],"directory":"/","lease":{"memory_mb":4096}`+c.fields+`}`)
		if status != http.StatusCreated || strings.Contains(text, "nobody knows when it starts") != c.told {
			t.Errorf("%q: %d %s", c.fields, status, text)
		}
	}
	for number := 1; number <= 5; number++ { // what waits keeps the daemon
		if status, _, text := g.as(me, "POST", fmt.Sprint("/api/jobs/a-", number, "/cancel"), ""); status != http.StatusOK {
			t.Errorf("%d %s", status, text)
		}
	}
}

// oneUser is a user database with one user, ada.
type oneUser struct{ uid int }

func (o oneUser) Of(int) string    { return "ada" }
func (o oneUser) Settled(int) bool { return true }
func (o oneUser) AccountOf(name string) (int, []int, error) {
	if name != "ada" {
		return 0, nil, osuser.UnknownUserError(name)
	}
	return o.uid, []int{o.uid}, nil
}

// Through the doors, a token that an administrator bound to a user has berth run programs
// as that user, and any other token nothing.
func TestBoundTokensSubmit(t *testing.T) {
	uid := 4711
	if os.Geteuid() != 0 {
		uid = os.Geteuid() // the daemon runs programs of nobody else
	}
	g := gates(t, &access.Rules{Daemon: os.Geteuid()}).withJobs(t)
	g.keeper.Names = oneUser{uid}
	g.server.Door = g.keeper
	bound := g.make(t, tokens.Token{Name: "nightly", Role: access.User, As: "ada", UID: uid})
	stale := g.make(t, tokens.Token{Name: "stale", Role: access.Admin, As: "ada", UID: uid + 1})
	gone := g.make(t, tokens.Token{Name: "gone", Role: access.Admin, As: "eve", UID: uid})
	plain := g.make(t, tokens.Token{Name: "plain", Role: access.Admin})
	show := func(door access.Door, place access.Place, secret, method, path, body string) (int, string) {
		r := httptest.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+secret)
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		h := g.keeper.ForSocket(g.server)
		if door == access.TCP {
			h = g.keeper.ForTCP(g.server)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.WithContext(doorkeeper.With(r.Context(), g.keeper.Caller(access.Peer{Caller: access.Caller{Door: door, UID: access.KnownUID(4712), Place: place}}, "127.0.0.1"))))
		return w.Code, w.Body.String()
	}
	for _, from := range []struct {
		door  access.Door
		place access.Place
	}{{access.Socket, access.Here}, {access.Socket, access.Elsewhere}, {access.TCP, access.Unknown}} {
		status, text := show(from.door, from.place, bound, "POST", "/api/jobs", heldJob)
		var j api.Job
		if err := json.Unmarshal([]byte(text), &j); err != nil || status != http.StatusCreated || j.User != "ada" {
			t.Fatalf("%v: %d %s", from, status, text)
		}
		if _, s, err := g.desk.Jobs.Seek(j.ID); err != nil || s.UID != uid {
			t.Errorf("%v: %+v, %v", from, s, err)
		}
		if status, text := show(from.door, from.place, bound, "GET", "/api/whoami", ""); status != 200 || !strings.Contains(text, fmt.Sprintf(`"user":"ada","uid":%d,"role":"user"`, uid)) || !strings.Contains(text, `"token":"nightly"`) || !strings.Contains(text, "bound the token to the user ada") {
			t.Errorf("%v: whoami is %d %s", from, status, text)
		}
		before := g.jobsThere(t)
		for name, c := range map[string]struct{ secret, code string }{"stale": {stale, "token_user_gone"}, "gone": {gone, "token_user_gone"}, "plain": {plain, "cannot_run"}} {
			for _, path := range []string{"/api/jobs", "/api/jobs/" + j.ID + "/redo", "/api/jobs/" + j.ID + "/unhold"} {
				body := heldJob
				if path != "/api/jobs" {
					body = ""
				}
				if status, text := show(from.door, from.place, c.secret, "POST", path, body); status != http.StatusForbidden || !strings.Contains(text, c.code) {
					t.Errorf("the token %s, %v, %s: %d %s", name, from, path, status, text)
				}
			}
		}
		if now := g.jobsThere(t); now != before {
			t.Errorf("%v: there were %s, and are %s", from, before, now)
		}
		// What a token may not do, a bound one may not either, whatever its role.
		for _, route := range []string{"POST /api/tokens", "POST /api/session/link", "POST /api/jobs/minder"} {
			method, path, _ := strings.Cut(route, " ")
			body := map[string]string{"POST /api/tokens": `{"name":"more","role":"user","as":"ada"}`, "POST /api/jobs/minder": `{"run":"1.0.1","version":1}`}[route]
			if status, text := show(from.door, from.place, bound, method, path, body); status/100 == 2 {
				t.Errorf("%s with a bound token: %d %s", route, status, text)
			}
		}
	}
}

// A list of jobs that is written in several pieces has every job as it is, page by page.
func TestAListOfJobsInPieces(t *testing.T) {
	g := gates(t, &access.Rules{Daemon: os.Geteuid()}).withJobs(t)
	me := onSocket(os.Geteuid())
	var want []api.Job
	for range 100 {
		status, _, text := g.as(me, "POST", "/api/jobs", strings.Replace(heldJob, "secret-word", strings.Repeat("<ü>", 200), 1))
		if status != http.StatusCreated {
			t.Fatalf("%d %s", status, text)
		}
		var j api.Job
		if _, _, text := g.as(me, "GET", fmt.Sprint("/api/jobs/train-", len(want)+1), ""); json.Unmarshal([]byte(text), &j) != nil {
			t.Fatal(text)
		}
		want = append([]api.Job{j}, want...)
	}
	for _, limit := range []int{1, 70, 100, 101} {
		var got []api.Job
		for after := ""; ; {
			_, _, text := g.as(me, "GET", fmt.Sprintf("/api/jobs?limit=%d&after=%s", limit, after), "")
			var page api.Jobs
			if err := json.Unmarshal([]byte(text), &page); err != nil || !strings.HasSuffix(text, "}\n") || page.Jobs == nil {
				t.Fatal(err, text)
			}
			got = append(got, page.Jobs...)
			if after = page.Next; after == "" {
				break
			}
			if len(page.Jobs) != limit {
				t.Errorf("a page of %d has %d", limit, len(page.Jobs))
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("by %d, there are %d jobs: %+v\nwant %+v", limit, len(got), got, want)
		}
	}
}

// A job with many tasks is written in several pieces, with as many tasks as are asked for.
func TestTheTasksOfAJobInPieces(t *testing.T) {
	g := gates(t, &access.Rules{Daemon: os.Geteuid()}).withJobs(t)
	me := onSocket(os.Geteuid())
	if status, _, text := g.as(me, "POST", "/api/jobs", strings.Replace(heldJob, "{", `{"array":"1-300",`, 1)); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	for query, want := range map[string]int{"": 300, "?tasks=0": 0, "?tasks=1": 1, "?tasks=64": 64, "?tasks=299": 299, "?tasks=1000": 300, "?wait_seconds=0.001": 0} {
		status, _, text := g.as(me, "GET", "/api/jobs/train-1"+query, "")
		var whole api.Job
		if err := json.Unmarshal([]byte(text), &whole); err != nil || status != http.StatusOK {
			t.Fatal(err, status, text)
		}
		if len(whole.List) != want || whole.Tasks.Total != 300 || strings.Contains(text, "list") != (want > 0) {
			t.Errorf("%s: %d of %d tasks, want %d", query, len(whole.List), whole.Tasks.Total, want)
		}
		for i, got := range whole.List {
			_, _, text := g.as(me, "GET", fmt.Sprint("/api/jobs/train-1.", i+1), "")
			var one api.Job
			if err := json.Unmarshal([]byte(text), &one); err != nil || !reflect.DeepEqual(one, got) {
				t.Fatalf("task %d is %+v in the list, and %s", i+1, got, text)
			}
		}
	}
	for _, query := range []string{"tasks=-1", "tasks=100001", "tasks=x"} {
		if status, problem, text := g.as(me, "GET", "/api/jobs/train-1?"+query, ""); status != http.StatusUnprocessableEntity || len(problem.Fields) == 0 {
			t.Errorf("%s: %d %s", query, status, text)
		}
	}
}

// Filters of the list of jobs may be repeated, and have several values with commas.
func TestJobFiltersAreRepeated(t *testing.T) {
	g := gates(t, &access.Rules{Daemon: os.Geteuid()}).withJobs(t)
	me := onSocket(os.Geteuid())
	for range 2 {
		if status, _, text := g.as(me, "POST", "/api/jobs", heldJob); status != http.StatusCreated {
			t.Fatalf("%d %s", status, text)
		}
	}
	if status, _, text := g.as(me, "POST", "/api/jobs/train-1/cancel", ""); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	uid := os.Geteuid()
	for query, want := range map[string]int{
		"":                                      2,
		"state=held":                            1,
		"state=running&state=held":              1,
		"state=held&state=cancelled":            2,
		"state=running,cancelled&state=held":    2,
		"state=running&state=lost":              0,
		fmt.Sprint("user=nosuch&user=", uid):    2,
		fmt.Sprint("user=nosuch,", uid):         2,
		"user=nosuch&user=nosuch2":              0,
		fmt.Sprint("user=", uid, "&state=held"): 1,
	} {
		status, _, text := g.as(me, "GET", "/api/jobs?"+query, "")
		var all api.Jobs
		if err := json.Unmarshal([]byte(text), &all); err != nil || status != http.StatusOK || len(all.Jobs) != want {
			t.Errorf("%s: %d jobs, want %d: %d %s", query, len(all.Jobs), want, status, text)
		}
	}
	for _, query := range []string{"state=held&state=nosuch", "state=nosuch&state=held", "state=held&limit=x"} {
		if status, problem, text := g.as(me, "GET", "/api/jobs?"+query, ""); status != http.StatusUnprocessableEntity || len(problem.Fields) == 0 {
			t.Errorf("%s: %d %s", query, status, text)
		}
	}
}
