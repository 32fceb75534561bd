package httpapi

import (
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
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/peaks"
)

// Nobody but its owner and administrators sees programs, paths and processes:
// whatever is asked for, no answer holds the secret.
func TestNobodySeesWhatOthersRun(t *testing.T) {
	const secret = "s3cret"
	d := open(t, "1xrtx-4060")
	owner := user(4711)
	owner.Holder.PID, owner.Holder.Start, owner.Holder.Boot = os.Getpid(), 1, "boot"
	put := func(method, path, body string) {
		t.Helper()
		if w := d.askAs(owner, method, path, body); w.Code >= 300 {
			t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
	}
	put("POST", "/api/leases", `{"id":"job","name":"`+secret+`.py","unit":"`+secret+`.service","comment":"ask `+secret+`","memory_mb":6000,"binding":"named"}`)
	put("PUT", "/api/batches/b1", `{"id":"b1","output":"/home/`+secret+`/out.jsonl","command":"`+secret+`","stage":"running","total_exact":false,
		"done":0,"done_before":0,"failed":0,"marked":0,"retries":0,"restarts":0,"workers":0,"gpus":[]}`)
	put("PUT", "/api/batches/b1", `{"id":"b1","output":"/home/`+secret+`/out.jsonl","command":"`+secret+`","stage":"failed","error":"`+secret+`","total_exact":false,
		"done":0,"done_before":0,"failed":0,"marked":0,"retries":0,"restarts":0,"workers":0,"gpus":[]}`)
	d.Past.Ended(&lease.Effect{Before: &lease.Lease{ID: "past", Holder: lease.Holder{UID: owner.UID, User: owner.User, Name: secret}}, Kind: lease.Released, Time: time.Now(), Why: secret}, 7, gpu.Opt[gpu.Joules]{})
	d.desk.Peaks.Add(peaks.Key{User: owner.User, Name: secret}, peaks.Run{Peak: 100}, time.Now())
	d.events.Publish(gpu.Event{Code: gpu.EventForeignUse, User: owner.User, Text: "Process 7 (" + secret + ") uses much", Public: "A process uses much", Data: map[string]any{"name": secret, "memory_mb": 7}})
	d.events.Publish(gpu.Event{Code: gpu.EventServiceFailed, User: owner.User, Text: "The service chat failed: " + secret, Public: "The service chat failed.", Data: map[string]any{"service": "chat", "log": []string{secret}}})
	d.events.Publish(gpu.Event{Code: gpu.EventStateDamaged, Text: "Of the named tokens, only these are accepted: " + secret, Public: "The state file tokens.json is damaged.", Data: map[string]any{"file": "tokens.json"}})
	d.events.Publish(lease.Sparing(gpu.Event{Code: gpu.EventRevoked, User: owner.User, Text: "train was revoked", Data: map[string]any{"fence": 7}}, []string{"7 (" + secret + ")"}))

	paths := []struct{ method, path, body string }{
		{"GET", "/api/leases", ""}, {"GET", "/api/leases/job", ""}, {"GET", "/api/leases/job/explain", ""}, {"GET", "/api/batches", ""}, {"GET", "/api/batches?ended=true", ""}, {"GET", "/api/report?since=2m", ""}, {"GET", "/api/users", ""},
		{"GET", "/api/measurements", ""}, {"GET", "/api/orphans", ""}, {"GET", "/api/energy", ""}, {"GET", "/api/past/leases", ""}, {"GET", "/api/audit", ""}, {"GET", "/api/events?follow=false", ""}, {"GET", "/api/gpu/status/all?leases=true", ""},
		{"GET", "/api/gpu/status?leases=true", ""}, {"GET", "/api/gpu/metrics", ""}, {"GET", "/api/gpu/metrics/history", ""}, {"GET", "/api/gpu/memory/available", ""}, {"GET", "/api/services", ""},
		{"POST", "/api/leases/explain", `{"memory_mb":7000}`}, {"POST", "/api/leases", `{"id":"too much","memory_mb":7000,"timeout_seconds":0}`},
	}
	admin := holding(lease.Holder{UID: 0, User: "root"}, access.Admin)
	for name, by := range map[string]doorkeeper.Identity{
		"another user":           user(4712),
		"nobody":                 doorkeeper.IdentityFor(viewer()),
		"a token":                doorkeeper.IdentityFor(access.Actor{UID: lease.NoUID, User: owner.User, Role: access.Viewer}),
		"the owner":              owner,
		"the owner, as a viewer": holding(owner.Holder, access.Viewer),
		"an operator":            holding(lease.Holder{UID: 4714, User: "olga"}, access.Operator),
		"a token of an operator": doorkeeper.IdentityFor(access.Actor{UID: lease.NoUID, User: "token:ops", Token: "ops", Door: access.TCP, Role: access.Operator}),
		"root":                   admin,
	} {
		seen := ""
		for _, p := range paths {
			r := httptest.NewRequest(p.method, p.path, strings.NewReader(p.body))
			if p.body != "" {
				r.Header.Set("Content-Type", "application/json")
			}
			w := httptest.NewRecorder()
			d.server.ServeHTTP(w, r.WithContext(withIdentity(r.Context(), by)))
			if strings.Contains(w.Body.String(), secret) {
				seen += " " + p.path
			}
			if by.Role == access.Viewer && by.UID != owner.UID && strings.Contains(w.Body.String(), owner.User) {
				t.Errorf("%s sees whose it is at %s: %s", name, p.path, w.Body)
			}
		}
		whole := by.Role >= access.Operator || by.UID == owner.UID
		if !whole && seen != "" {
			t.Errorf("%s sees it at%s", name, seen)
		}
		if whole && (!strings.Contains(seen, "/api/leases/job ") || !strings.Contains(seen, "/api/batches") || !strings.Contains(seen, "/api/events")) {
			t.Errorf("%s sees it only at%s", name, seen)
		}
	}
}

// Token names and user ids in events are for administrators and for the owner of
// the thing; others see the user, and callers who are not known not even that.
func TestWhoSeesWhoDidIt(t *testing.T) {
	d := open(t, "1xrtx-4060")
	ada := user(4711)
	token := doorkeeper.IdentityFor(access.Actor{User: "token", UID: access.NoUID, Token: access.DaemonToken, Door: access.Socket, Role: access.Admin})
	d.events.Publish(gpu.Event{Code: gpu.EventGranted, User: ada.User, By: lease.ByOf(ada.Actor)})
	d.events.Publish(gpu.Event{Code: gpu.EventReleased, User: ada.User, By: lease.ByOf(token.Actor)})
	const whole = `"by":{"user":"token","token":"daemon","door":"socket"}`
	for name, c := range map[string]struct {
		by   doorkeeper.Identity
		want string
	}{
		"another user": {user(4712), `"by":{"user":"token"}`},
		"nobody":       {doorkeeper.IdentityFor(viewer()), `"by":{"user":"another user"}`},
		"the owner":    {ada, whole},
		"root":         {holding(lease.Holder{UID: 0, User: "root"}, access.Admin), whole},
	} {
		text := d.askAs(c.by, "GET", "/api/events?follow=false", "").Body.String()
		_, released, _ := strings.Cut(text, "event: lease_released")
		if !strings.Contains(released, c.want) {
			t.Errorf("%s sees %s, want %s", name, released, c.want)
		}
		if seen := strings.Contains(text, `"uid":4711`); seen != (c.want == whole) {
			t.Errorf("%s sees the user id of the owner: %v in %s", name, seen, text)
		}
	}
}

func TestProcessesOfOthersAreOnlyMemory(t *testing.T) {
	sample := gpu.Sample{
		Time:      time.Now(),
		Processes: []gpu.Process{{PID: os.Getpid(), Name: "mine", Memory: gpu.Some[gpu.MiB](5)}, {PID: 1 << 30, Name: "gone", Memory: gpu.Some[gpu.MiB](7)}},
		Slow:      gpu.Slow{ProcessUtilization: map[int]gpu.Percent{os.Getpid(): 5, 1 << 30: 7}},
	}
	me := sight{holding(lease.Holder{UID: os.Getuid(), User: "me"}, access.User)}
	seen := me.sample(sample, map[int]time.Time{})
	if p := seen.Processes; p[0].Name != "mine" || p[1].PID != 0 || p[1].Name != "" || p[1].Memory != gpu.Some[gpu.MiB](7) || len(seen.ProcessUtilization) != 1 {
		t.Errorf("seen are %+v", seen)
	}
	if sample.Processes[1].Name != "gone" || len(sample.ProcessUtilization) != 2 {
		t.Error("what is kept was changed")
	}
	before := sample
	before.Time = time.Now().Add(-24 * time.Hour)
	if p := me.sample(before, map[int]time.Time{}).Processes; p[0].PID != 0 {
		t.Errorf("what had the pid before this process began is shown: %+v", p)
	}
	viewer := sight{doorkeeper.IdentityFor(viewer())}
	if p := viewer.sample(sample, map[int]time.Time{}).Processes; p[0].PID != 0 {
		t.Errorf("somebody unknown sees %+v", p)
	}
}

// The Prometheus page names users to users, and to nobody who may only look.
func TestWhoSeesNamesInMetrics(t *testing.T) {
	d := open(t, "1xrtx-4060")
	says := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
	}
	d.server.Metrics, d.server.Nameless = says("names"), says("no names")
	for role := access.Scraper; role <= access.Admin; role++ {
		want := "names"
		if role == access.Viewer {
			want = "no names"
		}
		by := doorkeeper.IdentityFor(access.Actor{UID: access.NoUID, User: "token:a", Token: "a", Role: role})
		if got := d.askAs(by, "GET", "/metrics", "").Body.String(); got != want {
			t.Errorf("a %v gets the page with %s, want %s", role, got, want)
		}
	}
}

// The names of users, groups and hooks in the configuration are for administrators;
// who may use a service is for users.
func TestWhoSeesNamesInSettings(t *testing.T) {
	d := open(t, "1xrtx-4060")
	d.server.Settings = listedSettings{d.settings}
	for role := access.Viewer; role <= access.Admin; role++ {
		text := d.askAs(holding(lease.Holder{UID: 4711, User: "ada"}, role), "GET", "/api/gpu/config/sources", "").Body.String()
		for name, least := range map[string]access.Role{"temp": access.Viewer, "carol": access.User, "bob": access.Admin, "lab": access.Admin, "pager": access.Admin} {
			if seen := strings.Contains(text, name); seen != (role >= least) {
				t.Errorf("a %v sees %s: %v in %s", role, name, seen, text)
			}
		}
	}
}

// listedSettings has settings that name people.
type listedSettings struct{ *memorySettings }

func (listedSettings) Fields() []api.ConfigField {
	return []api.ConfigField{
		{Field: "gpu.temp_optimal", Value: "65"}, {Field: "services.s.users", Value: "[carol]"}, {Field: "users.bob.role", Value: "operator"},
		{Field: "groups.lab.role", Value: "user"}, {Field: "hooks.pager.url", Value: "set"},
	}
}

// The holder of a token sees its own things whole, and no user of the machine passes
// for it.
func TestTokensSeeTheirOwn(t *testing.T) {
	d := open(t, "1xrtx-4060")
	token := doorkeeper.IdentityFor(access.Actor{UID: lease.NoUID, User: "token:ci", Token: "ci", Door: access.TCP, Role: access.User})
	body := `{"id":"b1","output":"s3cret","command":"s3cret","stage":"running","total_exact":false,
		"done":0,"done_before":0,"failed":0,"marked":0,"retries":0,"restarts":0,"workers":0,"gpus":[]}`
	if w := d.askAs(token, "PUT", "/api/batches/b1", body); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if w := d.askAs(token, "POST", "/api/measurements", `{"name":"s3cret","memory_mb":5,"seconds":1}`); w.Code != 204 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	d.events.Publish(gpu.Event{Code: gpu.EventForeignUse, User: token.User, Text: "s3cret", Public: "something"})
	other := doorkeeper.IdentityFor(access.Actor{UID: lease.NoUID, User: "token:other", Token: "other", Role: access.User})
	for _, path := range []string{"/api/batches", "/api/measurements", "/api/events?follow=false"} {
		for name, c := range map[string]struct {
			by   doorkeeper.Identity
			sees bool
		}{"its holder": {token, true}, "another token": {other, false}, "a user": {user(4711), false}} {
			if text := d.askAs(c.by, "GET", path, "").Body.String(); strings.Contains(text, "s3cret") != c.sees {
				t.Errorf("%s at %s: %s", name, path, text)
			}
		}
	}
	// Another user may have a batch with the same id.
	if w := d.askAs(other, "PUT", "/api/batches/b1", body); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Every call on a route is counted with its user, also one that is refused.
func TestCallsAreCounted(t *testing.T) {
	d := open(t, "1xrtx-4060")
	var calls []string
	d.server.Called = func(route, user string) { calls = append(calls, route+" by "+user) }
	ada := user(4711)
	d.askAs(ada, "GET", "/api/leases/nothing", "")
	d.askAs(ada, "POST", "/api/gpu/monitoring/stop", "")
	d.askAs(ada, "GET", "/no/such/path", "")
	d.askAs(doorkeeper.IdentityFor(viewer()), "GET", "/healthz", "")
	want := []string{"GET /api/leases/{id} by " + ada.User, "POST /api/gpu/monitoring/stop by " + ada.User, "GET /healthz by " + viewer().User}
	if !slices.Equal(calls, want) {
		t.Errorf("counted %q, want %q", calls, want)
	}
}

// Of the program that berth runs for a service, users see the settings that run nothing.
func TestNobodySeesProgramsInTheConfiguration(t *testing.T) {
	whole := func() api.GPUConfig {
		return api.GPUConfig{
			Services: map[string]api.ServiceConfig{"chat": {Users: []string{"ada"}, ProgramConfig: api.ProgramConfig{
				Command: []string{"hush"}, Directory: "/hush", User: "ada", Models: []string{"m"}, Sleep: []api.CallConfig{{Path: "/hush"}}, Wake: []api.CallConfig{{Path: "/hush"}},
			}}},
			Front: api.FrontConfig{Listen: "127.0.0.1:8080", TLSKey: "/hush", TLSCert: "/hush", User: "hush"},
		}
	}
	for name, c := range map[string]struct {
		by          doorkeeper.Identity
		runs, users bool
	}{
		"a viewer":    {doorkeeper.IdentityFor(viewer()), false, false},
		"a user":      {user(4712), false, true},
		"an operator": {holding(lease.Holder{UID: 4714, User: "olga"}, access.Operator), true, true},
	} {
		got := sight{c.by}.config(whole())
		text := fmt.Sprintf("%+v", got)
		if strings.Contains(text, "hush") != c.runs || strings.Contains(text, "ada") != c.users || got.Services["chat"].Models == nil || got.Front.Listen == "" {
			t.Errorf("%s sees %s", name, text)
		}
	}
}
