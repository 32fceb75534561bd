package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// TestRoutes holds every method against the request it must make, and checks
// that the answer comes back.
func TestRoutes(t *testing.T) {
	since := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		call   func(context.Context, *Client) (any, error)
		want   string // method, path and query, body
		answer string
		got    any
	}{
		{"status", func(ctx context.Context, c *Client) (any, error) { return c.Status(ctx, "1") },
			"GET /api/gpu/status?gpu=1 ", `{"state":"NORMAL"}`, api.Status{State: "NORMAL"}},
		{"first status", func(ctx context.Context, c *Client) (any, error) { return c.Status(ctx, "") },
			"GET /api/gpu/status ", `{"state":"NORMAL"}`, api.Status{State: "NORMAL"}},
		{"status all", func(ctx context.Context, c *Client) (any, error) { return c.StatusAll(ctx) },
			"GET /api/gpu/status/all ", `{"host":"h"}`, api.StatusAll{Host: "h"}},
		{"status with leases", func(ctx context.Context, c *Client) (any, error) { return c.StatusWithLeases(ctx, "1") },
			"GET /api/gpu/status?gpu=1&leases=true ", `{"leases":[{"id":"a"}]}`, api.Status{Leases: []api.DeviceLease{{ID: "a"}}}},
		{"status all with leases", func(ctx context.Context, c *Client) (any, error) { return c.StatusAllWithLeases(ctx) },
			"GET /api/gpu/status/all?leases=true ", `{"host":"h"}`, api.StatusAll{Host: "h"}},
		{"metrics", func(ctx context.Context, c *Client) (any, error) { return c.Metrics(ctx, "a&b") },
			"GET /api/gpu/metrics?gpu=a%26b ", `{}`, api.Samples{}},
		{"history", func(ctx context.Context, c *Client) (any, error) {
			return c.History(ctx, HistoryQuery{GPU: "0", Since: since, Limit: 3})
		}, "GET /api/gpu/metrics/history?gpu=0&limit=3&since=2026-01-31T12%3A00%3A00Z ", `{}`, api.Samples{}},
		{"all history", func(ctx context.Context, c *Client) (any, error) { return c.History(ctx, HistoryQuery{}) },
			"GET /api/gpu/metrics/history ", `{}`, api.Samples{}},
		{"trend", func(ctx context.Context, c *Client) (any, error) { return c.Trend(ctx, "0", 90*time.Second) },
			"GET /api/gpu/temperature/trend?gpu=0&minutes=1.5 ", `{"direction":"rising"}`, api.Trend{Direction: "rising"}},
		{"alerts", func(ctx context.Context, c *Client) (any, error) { return c.Alerts(ctx) },
			"GET /api/alerts ", `{"alerts":[{"alert":"Hot"}]}`, api.Alerts{Alerts: []api.Alert{{Alert: "Hot"}}}},
		{"acknowledge", func(ctx context.Context, c *Client) (any, error) {
			return c.Acknowledge(ctx, "a/b", api.AcknowledgeRequest{Hours: 2, Comment: "mine"})
		}, `POST /api/alerts/a%2Fb/acknowledge application/json{"hours":2,"comment":"mine"}`, `{"alert":"Hot"}`, api.Alert{Alert: "Hot"}},
		{"unacknowledge", func(ctx context.Context, c *Client) (any, error) { return c.Unacknowledge(ctx, "a") },
			"DELETE /api/alerts/a/acknowledge ", `{"alert":"Hot"}`, api.Alert{Alert: "Hot"}},
		{"hooks", func(ctx context.Context, c *Client) (any, error) { return c.Hooks().List(ctx) },
			"GET /api/hooks ", `{"hooks":[{"name":"chat"}]}`, api.Hooks{Hooks: []api.Hook{{Name: "chat"}}}},
		{"test of a hook", func(ctx context.Context, c *Client) (any, error) { return c.Hooks().Test(ctx, "my chat") },
			"POST /api/hooks/my%20chat/test ", `{"hook":"my chat","status":"delivered"}`, api.HookTest{Hook: "my chat", HookDelivery: api.HookDelivery{Status: "delivered"}}},
		{"check", func(ctx context.Context, c *Client) (any, error) {
			return c.Check(ctx, api.CheckRequest{GPU: "1", Kind: "long"})
		}, `POST /api/gpu/check application/json{"gpu":"1","kind":"long"}`, `{"verdict":"passed"}`, api.Check{Verdict: "passed"}},
		{"park", func(ctx context.Context, c *Client) (any, error) {
			return c.Park(ctx, "a/b", api.Park{Fence: 7, Why: "night"})
		}, `POST /api/leases/a%2Fb/park application/json{"fence":7,"reason":"night"}`, `{"id":"a/b","state":"parked"}`, api.Lease{ID: "a/b", State: "parked"}},
		{"resume", func(ctx context.Context, c *Client) (any, error) {
			return c.Of("ada").Resume(ctx, "a", api.Resume{Timeout: gpu.Some(0.0)})
		}, `POST /api/leases/a/resume?user=ada application/json{"timeout_seconds":0}`, `{"id":"a","state":"active"}`, api.Lease{ID: "a", State: "active"}},
		{"wake", func(ctx context.Context, c *Client) (any, error) { return c.Wake(ctx, "a", 7) },
			`POST /api/leases/a/wake application/json{"fence":7}`, `{"id":"a"}`, api.Lease{ID: "a"}},
		{"optimize", func(ctx context.Context, c *Client) (any, error) {
			return c.Optimize(ctx, api.Optimize{Service: "embedder", DryRun: true})
		}, `POST /api/optimize application/json{"service":"embedder","dry_run":true}`, `{"dry_run":true}`, api.Optimization{DryRun: true}},
		{"resize and wait", func(ctx context.Context, c *Client) (any, error) {
			return c.Resize(ctx, "a", api.Resize{Memory: 2048, Timeout: gpu.Some(60.0)})
		}, `POST /api/leases/a/resize application/json{"memory_mb":2048,"timeout_seconds":60}`, `{"id":"a"}`, api.Lease{ID: "a"}},
		{"drain", func(ctx context.Context, c *Client) (any, error) {
			return c.Drain(ctx, api.DrainRequest{GPU: "1", Until: &since, Reason: "fan"})
		}, `POST /api/gpu/drain application/json{"gpu":"1","until":"2026-01-31T12:00:00Z","reason":"fan"}`, `{"index":1}`, api.Drained{Index: 1}},
		{"undrain", func(ctx context.Context, c *Client) (any, error) {
			return c.Undrain(ctx, api.UndrainRequest{GPU: "1"})
		}, `POST /api/gpu/undrain application/json{"gpu":"1"}`, `{"changed":true}`, api.Drained{Changed: true}},
		{"available", func(ctx context.Context, c *Client) (any, error) { return c.Available(ctx) },
			"GET /api/gpu/memory/available ", `{}`, api.Available{}},
		{"throttle", func(ctx context.Context, c *Client) (any, error) { return c.Throttle(ctx, "") },
			"GET /api/gpu/throttle/status ", `{"reason":"r"}`, api.Throttle{Reason: "r"}},
		{"start", func(ctx context.Context, c *Client) (any, error) { return c.StartMonitoring(ctx) },
			"POST /api/gpu/monitoring/start ", `{"running":true}`, api.Monitoring{Running: true}},
		{"stop", func(ctx context.Context, c *Client) (any, error) { return c.StopMonitoring(ctx) },
			"POST /api/gpu/monitoring/stop ", `{"changed":true}`, api.Monitoring{Changed: true}},
		{"config", func(ctx context.Context, c *Client) (any, error) { return c.Config(ctx) },
			"GET /api/gpu/config ", `{"new_field":1}`, json.RawMessage(`{"new_field":1}`)},
		{"set config", func(ctx context.Context, c *Client) (any, error) {
			return c.SetConfig(ctx, json.RawMessage(`{"temp_optimal":60}`))
		}, `PUT /api/gpu/config application/json{"temp_optimal":60}`, `{}`, json.RawMessage(`{}`)},
		{"reload config", func(ctx context.Context, c *Client) (any, error) { return c.ReloadConfig(ctx) },
			"POST /api/gpu/config/reload ", `{"changed":["a = 1 (was 2)"],"overridden":[{"field":"b","in_file":"3"}]}`,
			api.ConfigReload{Changed: []string{"a = 1 (was 2)"}, Overridden: []api.ConfigOverride{{ConfigField: api.ConfigField{Field: "b"}, InFile: "3"}}}},
		{"config fields", func(ctx context.Context, c *Client) (any, error) { return c.ConfigFields(ctx) },
			"GET /api/gpu/config/sources ", `{"fields":[{"field":"gpu.temp_optimal"}]}`,
			api.ConfigFields{Fields: []api.ConfigField{{Field: "gpu.temp_optimal"}}}},
		{"allocate", func(ctx context.Context, c *Client) (any, error) {
			return c.Allocate(ctx, api.Allocate{ID: "a", Memory: 4096, Timeout: gpu.Some(2.5)})
		}, `POST /api/gpu/memory/allocate application/json{"allocation_id":"a","memory_mb":4096,"timeout_seconds":2.5}`,
			`{"id":"a","fence":7}`, api.Lease{ID: "a", Fence: 7}},
		{"deallocate", func(ctx context.Context, c *Client) (any, error) { return c.Deallocate(ctx, "a") },
			`POST /api/gpu/memory/deallocate application/json{"allocation_id":"a"}`, `{"id":"a"}`, api.Ended{ID: "a"}},
		{"leases", func(ctx context.Context, c *Client) (any, error) { return c.Leases(ctx) },
			"GET /api/leases ", `{"waiting":[{"id":"w"}]}`, api.Leases{Waiting: []api.Waiting{{ID: "w"}}}},
		{"lease", func(ctx context.Context, c *Client) (any, error) { return c.Lease(ctx, "../a b?%") },
			"GET /api/leases/%2E%2E%2Fa%20b%3F%25 ", `{"id":"x"}`, api.Lease{ID: "x"}},
		{"acquire", func(ctx context.Context, c *Client) (any, error) {
			return c.Acquire(ctx, api.LeaseRequest{ID: "x", GPUs: 2, Slots: gpu.Some(0), Memory: 1})
		}, `POST /api/leases application/json{"id":"x","gpus":2,"memory_mb":1,"slots":0}`, `{"id":"x"}`, api.Lease{ID: "x"}},
		{"release", func(ctx context.Context, c *Client) (any, error) { return c.Release(ctx, "a", 7) },
			"DELETE /api/leases/a?fence=7 ", `{"id":"a"}`, api.Ended{ID: "a"}},
		{"release whichever", func(ctx context.Context, c *Client) (any, error) { return c.Release(ctx, "a", 0) },
			"DELETE /api/leases/a ", `{"id":"a"}`, api.Ended{ID: "a"}},
		{"release and keep running", func(ctx context.Context, c *Client) (any, error) { return c.ReleaseKeepRunning(ctx, "a") },
			"DELETE /api/leases/a?keep_running=true ", `{"id":"a"}`, api.Ended{ID: "a"}},
		{"cancel", func(ctx context.Context, c *Client) (any, error) {
			return c.Cancel(ctx, "a", api.Cancel{Fence: 7, Why: "enough"})
		}, `POST /api/leases/a/cancel application/json{"fence":7,"reason":"enough"}`, `{"id":"a","lease":{"id":"b"}}`, api.Ended{ID: "a", Lease: &api.Lease{ID: "b"}}},
		{"rescope", func(ctx context.Context, c *Client) (any, error) {
			return c.Rescope(ctx, "a", api.Rescope{Fence: 7, Add: []string{"pod1"}})
		}, `POST /api/leases/a/scope application/json{"fence":7,"add":["pod1"]}`, `{"id":"a"}`, api.Lease{ID: "a"}},
		{"resize", func(ctx context.Context, c *Client) (any, error) {
			return c.Resize(ctx, "a", api.Resize{Fence: 7, Memory: 10})
		}, `POST /api/leases/a/resize application/json{"memory_mb":10,"fence":7}`, `{"id":"a"}`, api.Lease{ID: "a"}},
		{"renew", func(ctx context.Context, c *Client) (any, error) {
			return c.Renew(ctx, "a", api.Renew{Fence: 7, TTL: gpu.Some(60.0)})
		}, `POST /api/leases/a/renew application/json{"fence":7,"ttl_seconds":60}`, `{"id":"a"}`, api.Lease{ID: "a"}},
		{"past leases", func(ctx context.Context, c *Client) (any, error) {
			return c.PastLeases(ctx, PastQuery{Service: "a b", User: "u", GPU: "0", Since: since, Limit: 3})
		}, "GET /api/past/leases?gpu=0&limit=3&service=a+b&since=2026-01-31T12%3A00%3A00Z&user=u ", `{"leases":[{"id":"a"}]}`,
			api.PastLeases{Leases: []api.PastLease{{ID: "a"}}}},
		{"audit", func(ctx context.Context, c *Client) (any, error) {
			return c.Audit(ctx, AuditQuery{User: "u", What: "release", Since: since, Limit: 3, After: 7})
		}, "GET /api/audit?after=7&limit=3&since=2026-01-31T12%3A00%3A00Z&user=u&what=release ", `{"entries":[{"seq":8}],"next":8}`,
			api.AuditLog{Entries: []api.AuditEntry{{Seq: 8}}, Next: 8}},
		{"report operations", func(ctx context.Context, c *Client) (any, error) {
			return c.ReportOperations(ctx, "my service", api.Operations{Count: 3, Seconds: 1.5, GPU: "0"})
		}, `POST /api/services/my%20service/operations application/json{"count":3,"seconds":1.5,"gpu":"0"}`, `{"count":3}`, api.Counted{Count: 3}},
		{"measurements", func(ctx context.Context, c *Client) (any, error) { return c.Measurements(ctx) },
			"GET /api/measurements ", `{"measurements":[{"name":"x"}]}`, api.Measurements{Measurements: []api.Measured{{Name: "x"}}}},
		{"measure", func(ctx context.Context, c *Client) (any, error) {
			return nil, c.Measure(ctx, api.Measurement{Name: "x", Step: "s", Memory: 5, Seconds: 1.5})
		}, `POST /api/measurements application/json{"name":"x","step":"s","memory_mb":5,"seconds":1.5}`, ``, nil},
		{"version", func(ctx context.Context, c *Client) (any, error) { return c.Version(ctx) },
			"GET /api/version ", `{"version":"0.1.0","go":"go1.26.0","os":"linux","arch":"arm64"}`, api.Version{Version: "0.1.0", Go: "go1.26.0", OS: "linux", Arch: "arm64"}},
		{"whoami", func(ctx context.Context, c *Client) (any, error) { return c.Whoami(ctx) },
			"GET /api/whoami ", `{"user":"ann","uid":0,"role":"admin"}`, api.Whoami{User: "ann", UID: gpu.Some(0), Role: "admin"}},
		{"my quota", func(ctx context.Context, c *Client) (any, error) { return c.Quota(ctx, "") },
			"GET /api/quota ", `{"limits":[{"name":"slots","limit":2}]}`, api.Quota{Limits: []api.QuotaLimit{{Name: "slots", Limit: gpu.Some(2.0)}}}},
		{"another's quota", func(ctx context.Context, c *Client) (any, error) { return c.Quota(ctx, "token:a b") },
			"GET /api/quota?user=token%3Aa+b ", `{"user":"token:a b"}`, api.Quota{User: "token:a b"}},
		{"tokens", func(ctx context.Context, c *Client) (any, error) { return c.Tokens(ctx) },
			"GET /api/tokens ", `{"tokens":[{"name":"t"}]}`, api.Tokens{Tokens: []api.Token{{Name: "t"}}}},
		{"create a token", func(ctx context.Context, c *Client) (any, error) {
			return c.CreateToken(ctx, api.TokenRequest{Name: "t", Role: "viewer", TTL: gpu.Some(60.0)})
		}, `POST /api/tokens application/json{"name":"t","role":"viewer","ttl_seconds":60}`, `{"name":"t","token":"secret"}`,
			api.NewToken{Token: api.Token{Name: "t"}, Secret: "secret"}},
		{"revoke a token", func(ctx context.Context, c *Client) (any, error) { return c.RevokeToken(ctx, "../t") },
			"DELETE /api/tokens/%2E%2E%2Ft ", `{"name":"t"}`, api.Token{Name: "t"}},
		{"audit", func(ctx context.Context, c *Client) (any, error) {
			return c.Audit(ctx, AuditQuery{Since: since, User: "u", What: "release", Limit: 3, After: 7})
		}, "GET /api/audit?after=7&limit=3&since=2026-01-31T12%3A00%3A00Z&user=u&what=release ", `{"entries":[{"seq":8}],"next":8}`,
			api.AuditLog{Entries: []api.AuditEntry{{Seq: 8}}, Next: 8}},
		{"newest of the audit log", func(ctx context.Context, c *Client) (any, error) { return c.Audit(ctx, AuditQuery{}) },
			"GET /api/audit ", `{"entries":[]}`, api.AuditLog{Entries: []api.AuditEntry{}}},
		{"backup", func(ctx context.Context, c *Client) (any, error) {
			var b strings.Builder
			err := c.Backup(ctx, BackupQuery{Secrets: true, NoPast: true}, &b)
			return b.String(), err
		}, "POST /api/backup?past=false&secrets=true ", "an archive", "an archive"},
		{"energy", func(ctx context.Context, c *Client) (any, error) { return c.Energy(ctx) },
			"GET /api/energy ", `{"used":[{"user":"u","energy_joules":7}]}`, api.Energy{Used: []api.EnergyUse{{User: "u", Energy: 7}}}},
		{"orphans", func(ctx context.Context, c *Client) (any, error) { return c.Orphans(ctx) },
			"GET /api/orphans ", `{"orphans":[{"pid":5}]}`, api.Strays{Orphans: []api.Stray{{PID: 5}}}},
		{"users", func(ctx context.Context, c *Client) (any, error) { return c.Users(ctx) },
			"GET /api/users ", `{"users":[{"user":"ada"}]}`, api.Users{Users: []api.UserUse{{User: "ada"}}}},
		{"batches", func(ctx context.Context, c *Client) (any, error) { return c.Batches(ctx) },
			"GET /api/batches ", `{"batches":[{"id":"b"}]}`, api.Batches{Batches: []api.Batch{{ID: "b"}}}},
		{"report", func(ctx context.Context, c *Client) (any, error) { return c.ReportBatch(ctx, api.Batch{ID: "b/1"}) },
			`PUT /api/batches/b%2F1 application/json{"id":"b/1","output":"","stage":"","total_exact":false,"done":0,"done_before":0,"failed":0,` +
				`"marked":0,"retries":0,"restarts":0,"workers":0,"gpus":null}`, `{"id":"b/1"}`, api.Batch{ID: "b/1"}},
		{"adopt", func(ctx context.Context, c *Client) (any, error) { return c.Adopt(ctx, api.Adopt{PID: 5}) },
			`POST /api/leases/adopt application/json{"pid":5}`, `{"id":"a"}`, api.Lease{ID: "a"}},
		{"explain", func(ctx context.Context, c *Client) (any, error) {
			return c.Explain(ctx, api.LeaseRequest{Where: "name~H200"})
		}, `POST /api/leases/explain application/json{"where":"name~H200"}`, `{"fits":true}`, api.Explanation{Fits: true}},
		{"explain waiting", func(ctx context.Context, c *Client) (any, error) { return c.ExplainWaiting(ctx, "a") },
			"GET /api/leases/a/explain ", `{"position":2}`, api.Explanation{Position: 2}},
		{"plan", func(ctx context.Context, c *Client) (any, error) {
			return c.Plan(ctx, api.PlanRequest{Pipelines: json.RawMessage(`[{"name":"p"}]`)})
		}, `POST /api/plans application/json{"pipelines":[{"name":"p"}]}`, `{"waves":2}`, api.Plan{Waves: 2}},
		{"run plan", func(ctx context.Context, c *Client) (any, error) {
			return c.RunPlan(ctx, api.PlanRun{PlanRequest: api.PlanRequest{Text: "x"}, Runs: []string{"p[1]"}, PID: 5, Timeout: gpu.Some(9.0)})
		}, `POST /api/plans/run application/json{"text":"x","runs":["p[1]"],"pid":5,"timeout_seconds":9}`,
			`{"runs":[{"name":"p[1]","placement":"confirmed"}]}`,
			api.PlanRunning{Runs: []api.RunningRun{{Name: "p[1]", Placement: "confirmed"}}}},
		{"submit", func(ctx context.Context, c *Client) (any, error) {
			return c.Submit(ctx, api.JobRequest{Command: []string{"python", "train.py"}, Lease: api.LeaseRequest{Memory: 2048}})
		}, `POST /api/jobs application/json{"command":["python","train.py"],"lease":{"memory_mb":2048}}`, `{"id":"job-7","state":"waiting"}`, api.Job{ID: "job-7", State: "waiting"}},
		{"jobs", func(ctx context.Context, c *Client) (any, error) {
			return c.Jobs(ctx, JobQuery{User: "ada", States: []string{"running", "parked"}, Since: since, Limit: 3})
		}, "GET /api/jobs?limit=3&since=2026-01-31T12%3A00%3A00Z&state=running%2Cparked&user=ada ", `{"jobs":[{"id":"job-7"}]}`, api.Jobs{Jobs: []api.Job{{ID: "job-7"}}}},
		{"all jobs", func(ctx context.Context, c *Client) (any, error) { return c.Jobs(ctx, JobQuery{}) },
			"GET /api/jobs ", `{"jobs":[]}`, api.Jobs{Jobs: []api.Job{}}},
		{"job", func(ctx context.Context, c *Client) (any, error) { return c.Job(ctx, "train-7.3") },
			"GET /api/jobs/train-7%2E3 ", `{"id":"train-7.3"}`, api.Job{ID: "train-7.3"}},
		{"wait for a job", func(ctx context.Context, c *Client) (any, error) { return c.WaitJob(ctx, "job-7") },
			"GET /api/jobs/job-7?wait_seconds=30 ", `{"id":"job-7","state":"failed","exit_code":3}`, api.Job{ID: "job-7", State: "failed", Exit: gpu.Some(3)}},
		{"cancel a job", func(ctx context.Context, c *Client) (any, error) { return c.CancelJob(ctx, "job-7", "") },
			"POST /api/jobs/job-7/cancel application/json{}", `{"id":"job-7"}`, api.Job{ID: "job-7"}},
		{"hold", func(ctx context.Context, c *Client) (any, error) { return c.HoldJob(ctx, "job-7") },
			"POST /api/jobs/job-7/hold application/json{}", `{"id":"job-7"}`, api.Job{ID: "job-7"}},
		{"unhold", func(ctx context.Context, c *Client) (any, error) { return c.UnholdJob(ctx, "job-7") },
			"POST /api/jobs/job-7/unhold application/json{}", `{"id":"job-7"}`, api.Job{ID: "job-7"}},
		{"redo", func(ctx context.Context, c *Client) (any, error) {
			return c.RedoJob(ctx, "job-7", api.JobRedo{Failed: true})
		},
			`POST /api/jobs/job-7/redo application/json{"failed":true}`, `{"id":"job-8"}`, api.Job{ID: "job-8"}},
		{"priority", func(ctx context.Context, c *Client) (any, error) {
			return c.ChangeJob(ctx, "job-7", api.JobChange{Priority: gpu.Some(-5)})
		}, `POST /api/jobs/job-7/priority application/json{"priority":-5}`, `{"id":"job-7"}`, api.Job{ID: "job-7"}},
		{"log", func(ctx context.Context, c *Client) (any, error) {
			var log strings.Builder
			err := c.JobLog(ctx, "job-7", LogQuery{Errors: true, Lines: 10, Follow: true}, &log)
			return log.String(), err
		}, "GET /api/jobs/job-7/log?errors=true&follow=true&lines=10 ", "epoch 1\nepoch 2\n", "epoch 1\nepoch 2\n"},
		{"services", func(ctx context.Context, c *Client) (any, error) { return c.Services(ctx) },
			"GET /api/services ", `{"services":[{"name":"chat"}]}`, api.Services{Services: []api.Service{{Name: "chat"}}}},
		{"service", func(ctx context.Context, c *Client) (any, error) { return c.Service(ctx, "chat.1") },
			"GET /api/services/chat%2E1 ", `{"name":"chat.1"}`, api.Service{Name: "chat.1"}},
		{"start a service", func(ctx context.Context, c *Client) (any, error) { return c.StartService(ctx, "chat", "") },
			"POST /api/services/chat/start application/json{}", `{"name":"chat"}`, api.Service{Name: "chat"}},
		{"stop a service", func(ctx context.Context, c *Client) (any, error) { return c.StopService(ctx, "chat", "new weights") },
			`POST /api/services/chat/stop application/json{"why":"new weights"}`, `{"name":"chat"}`, api.Service{Name: "chat"}},
		{"restart a service", func(ctx context.Context, c *Client) (any, error) { return c.RestartService(ctx, "chat", "") },
			"POST /api/services/chat/restart application/json{}", `{"name":"chat"}`, api.Service{Name: "chat"}},
		{"move a service", func(ctx context.Context, c *Client) (any, error) {
			return c.MoveService(ctx, "chat", api.ServiceOrder{GPU: "1"})
		}, `POST /api/services/chat/move application/json{"gpu":"1"}`, `{"name":"chat"}`, api.Service{Name: "chat"}},
		{"log of a service", func(ctx context.Context, c *Client) (any, error) {
			var log strings.Builder
			err := c.ServiceLog(ctx, "chat", LogQuery{Lines: 10}, &log)
			return log.String(), err
		}, "GET /api/services/chat/log?lines=10 ", "loaded\n", "loaded\n"},
		{"ping", func(ctx context.Context, c *Client) (any, error) { return nil, c.Ping(ctx) },
			"GET /healthz ", "ok\n", nil},
		{"ready", func(ctx context.Context, c *Client) (any, error) { return c.Ready(ctx) },
			"GET /readyz ", `{"ready":true}`, api.Ready{Ready: true}},
		{"openapi", func(ctx context.Context, c *Client) (any, error) { return c.OpenAPI(ctx) },
			"GET /openapi.json ", `{"openapi":"3.1.0"}`, json.RawMessage(`{"openapi":"3.1.0"}`)},
		{"prometheus", func(ctx context.Context, c *Client) (any, error) { return c.Prometheus(ctx) },
			"GET /metrics ", "# HELP\n", []byte("# HELP\n")},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked string
			daemon := newClient(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				asked = r.Method + " " + r.URL.RequestURI() + " " + r.Header.Get("Content-Type") + string(body)
				_, _ = w.Write([]byte(c.answer))
			})
			got, err := c.call(t.Context(), daemon)
			if err != nil {
				t.Fatal(err)
			}
			if asked != c.want {
				t.Errorf("asked %q, want %q", asked, c.want)
			}
			if !reflect.DeepEqual(got, c.got) {
				t.Errorf("answer %v, want %v", got, c.got)
			}
		})
	}
}

// A daemon that ends while it works on a request leaves its caller with a next step.
func TestADaemonThatEndsBeforeItAnswers(t *testing.T) {
	daemon := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer daemon.Close()
	c, err := New(Options{URL: daemon.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Park(t.Context(), "train", api.Park{})
	var hinted interface{ Hint() string }
	if want := "POST /api/leases/train/park: the daemon closed the connection before it answered"; err == nil || err.Error() != want || !errors.As(err, &hinted) || hinted.Hint() == "" {
		t.Errorf("error %v, want %q with a next step", err, want)
	}
}

func TestAnswersThatAreErrors(t *testing.T) {
	for _, c := range []struct {
		name        string
		contentType string
		status      int
		body        string
		want        string // of the error
	}{
		{"problem", "application/problem+json", 422, `{"code":"invalid","detail":"It is wrong.","fields":[{"field":"gpu","detail":"no"}]}`,
			"It is wrong.\n  gpu: no"},
		{"problem with parameters", "application/problem+json; charset=utf-8", 404, `{"detail":"Not there."}`, "Not there."},
		{"half a problem", "application/problem+json", 500, `{"detail":"It`, "GET /api/gpu/status/all: read the answer: unexpected EOF"},
		{"another server", "text/html", 404, `<html>`,
			"GET /api/gpu/status/all: the answer 404 Not Found is not from a berth daemon: check which program listens there"},
		{"half an answer", "application/json", 200, `{"host":`, "GET /api/gpu/status/all: read the answer: unexpected EOF"},
		{"no answer", "application/json", 200, ``, "GET /api/gpu/status/all: read the answer: EOF"},
		{"not JSON", "text/html", 200, `<html>`,
			"GET /api/gpu/status/all: read the answer: invalid character '<' looking for beginning of value"},
	} {
		t.Run(c.name, func(t *testing.T) {
			daemon := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.contentType)
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			})
			_, err := daemon.StatusAll(t.Context())
			if err == nil || err.Error() != c.want {
				t.Fatalf("error %q, want %q", err, c.want)
			}
			problem := (*api.Problem)(nil)
			if isProblem := errors.As(err, &problem); isProblem && problem.Status != c.status {
				t.Errorf("status %d, want %d", problem.Status, c.status)
			}
		})
	}
}

func TestTokenIsSent(t *testing.T) {
	var sent string
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { sent = r.Header.Get("Authorization") })
	tcp := httptest.NewServer(handler)
	defer tcp.Close()
	overURL, err := New(Options{URL: strings.TrimPrefix(tcp.URL, "http://") + "/", Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer overURL.Close()
	if err := overURL.Ping(t.Context()); err != nil || sent != "Bearer secret" {
		t.Errorf("over a URL: sent %q, error %v", sent, err)
	}
	overSocket, err := New(Options{Socket: serveUnix(t, handler), Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer overSocket.Close()
	if err := overSocket.Ping(t.Context()); err != nil || sent != "Bearer secret" {
		t.Errorf("over a socket: sent %q, error %v", sent, err)
	}
}

func TestURLKeepsItsPath(t *testing.T) {
	var path string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { path = r.URL.Path }))
	defer server.Close()
	c, err := New(Options{URL: server.URL + "/behind/a/proxy/"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Ping(t.Context()); err != nil || path != "/behind/a/proxy/healthz" {
		t.Errorf("asked %q, error %v", path, err)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, o := range map[string]Options{
		"nothing":        {},
		"two places":     {Socket: "/s", URL: "http://h"},
		"another scheme": {URL: "ftp://h"},
		"no host":        {URL: "http://"},
		"not a URL":      {URL: "http://[::1"},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(Options{Timeout: 10 * time.Second, Transport: Through(
			http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		err = c.Ping(t.Context())
		if !errors.Is(err, context.DeadlineExceeded) || !strings.HasSuffix(err.Error(), ": no answer within 10s") {
			t.Errorf("error %v", err)
		}
		if waited := time.Since(start); waited != 10*time.Second {
			t.Errorf("waited %s", waited)
		}
	})
}

// newClient is a client of a server over TCP that f answers for.
func newClient(t *testing.T, f http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	c, err := New(Options{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// serveUnix serves h on a new socket and returns its path.
func serveUnix(t *testing.T, h http.Handler) string {
	t.Helper()
	path := filepath.Join(shortDir(t), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h}
	t.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.Serve(listener) }()
	return path
}

// shortDir is a directory whose path leaves room for a socket: their paths are
// limited to about a hundred bytes, and t.TempDir can be longer.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "b")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// A client shows what its file has now, and the last token while the file is away.
func TestTokenFileIsReadAgain(t *testing.T) {
	var shown string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown = r.Header.Get("Authorization")
		_, _ = io.WriteString(w, "{}")
	}))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "token")
	c, err := New(Options{URL: server.URL, TokenFile: path})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, step := range []struct{ write, want string }{{"first", "Bearer first"}, {"second", "Bearer second"}, {"", "Bearer second"}} {
		if err := os.WriteFile(path, []byte(step.write), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Ready(t.Context()); err != nil || shown != step.want {
			t.Errorf("it shows %q (%v), want %q", shown, err, step.want)
		}
	}
}
