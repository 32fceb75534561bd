package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
)

// user is somebody on the socket, known by user id.
func user(uid int) doorkeeper.Identity {
	return holding(lease.Holder{UID: uid, User: fmt.Sprintf("user%d", uid)}, access.User)
}

// askAs makes a request on behalf of somebody.
func (d *door) askAs(who doorkeeper.Identity, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r.WithContext(withIdentity(r.Context(), who)))
	return w
}

// expect checks an answer: its status and, if it is a problem, its code, its
// sentence and the fields it complains about.
func expect(t *testing.T, what string, w *httptest.ResponseRecorder, status int, code string, fields ...string) api.Problem {
	t.Helper()
	if w.Code != status {
		t.Errorf("%s: answer is %d, want %d: %s", what, w.Code, status, w.Body)
	}
	if code == "" {
		return api.Problem{}
	}
	p := decode[api.Problem](t, w)
	if p.Code != code || p.Status != w.Code || len(p.Detail) < 10 || !strings.Contains(p.Detail, " ") {
		t.Errorf("%s: the problem is %+v, want code %q", what, p, code)
	}
	var named []string
	for _, f := range p.Fields {
		named = append(named, f.Field+": "+f.Detail)
	}
	for _, f := range fields {
		if !strings.Contains(strings.Join(named, "\n")+p.Detail, f) {
			t.Errorf("%s: it complains about %v and not about %s: %s", what, named, f, p.Detail)
		}
	}
	return p
}

func TestLeaseBadInput(t *testing.T) {
	d := open(t, "2xrtx-4060")
	d.Ledger.Configure(quota.Settings{
		Device: func(string) quota.DeviceSettings { return quota.DeviceSettings{Reserve: 512, MaxPipelines: 2} },
		Services: map[string]quota.Served{
			"small":   {Service: quota.Service{Name: "small", MinMemory: 256, MaxMemory: 1024}},
			"theirs":  {Service: quota.Service{Name: "theirs", Users: []string{"user7"}}},
			"rations": {Service: quota.Service{Name: "rations", Quota: lease.Usage{Memory: 300}}},
		},
	})
	mine, theirs := user(1), user(2)
	expect(t, "the first lease", d.askAs(mine, "POST", "/api/gpu/memory/allocate", `{"allocation_id":"held","memory_mb":100}`), 201, "")
	expect(t, "a lease of another user", d.askAs(theirs, "POST", "/api/gpu/memory/allocate", `{"allocation_id":"theirs","memory_mb":100,"ttl_seconds":600}`), 201, "")
	expect(t, "of the service", d.askAs(mine, "POST", "/api/gpu/memory/allocate", `{"allocation_id":"ration","memory_mb":200,"service":"rations"}`), 201, "")

	allocate := func(rest string) (string, string, string) {
		return "POST", "/api/gpu/memory/allocate", "{" + rest + "}"
	}
	acquire := func(rest string) (string, string, string) { return "POST", "/api/leases", "{" + rest + "}" }
	long := strings.Repeat("x", 129)
	stranger := othersPID(t)
	type request func() (method, path, body string)
	of := func(f func(string) (string, string, string), rest string) request {
		return func() (string, string, string) { return f(rest) }
	}
	raw := func(method, path, body string) request {
		return func() (string, string, string) { return method, path, body }
	}
	for _, test := range []struct {
		name    string
		request request
		status  int
		code    string
		fields  []string
	}{
		{"two different devices", of(acquire, `"memory_mb":100,"gpu":"0","where":"gpu=SIM-rtx-4060-1"`), 422, "invalid_request", []string{"where"}},
		{"a must and another wish", of(acquire, `"memory_mb":100,"gpu":"0","prefer":"1"`), 422, "invalid_request", []string{"prefer"}},
		{"a must and another wish, for an application", of(allocate, `"allocation_id":"x","memory_mb":100,"gpu":"0","prefer":"1"`), 422, "invalid_request", []string{"prefer"}},
		{"a wish for a device that is not there", of(allocate, `"allocation_id":"x","memory_mb":100,"prefer":"9"`), 404, "unknown_device", nil},
		{"an endless wish", of(allocate, `"allocation_id":"x","memory_mb":100,"prefer":"`+long+`"`), 422, "invalid_request", []string{"prefer"}},
		{"a policy that does not exist", of(allocate, `"allocation_id":"x","memory_mb":100,"policy":"luck"`), 422, "invalid_request", []string{"policy"}},
		{"a parent that never was", of(acquire, `"slots":0,"parent":"nobody"`), 409, "no_parent", []string{"the user has no lease with that id"}},
		{"a parent without a name", of(acquire, `"slots":0,"parent":" "`), 422, "invalid_request", []string{"parent"}},
		{"zero memory", of(allocate, `"allocation_id":"x","memory_mb":0`), 422, "invalid_request", []string{"memory_mb"}},
		{"negative memory", of(allocate, `"allocation_id":"x","memory_mb":-1`), 422, "invalid_request", []string{"memory_mb"}},
		{"fractional memory", of(allocate, `"allocation_id":"x","memory_mb":1.5`), 422, "invalid_request", []string{"memory_mb"}},
		{"2^63 of memory", of(allocate, `"allocation_id":"x","memory_mb":9223372036854775808`), 422, "invalid_request", []string{"memory_mb"}},
		{"2^62 of memory", of(allocate, `"allocation_id":"x","memory_mb":4611686018427387904`), 422, "invalid_request", []string{"memory_mb"}},
		{"1e400 of memory", of(allocate, `"allocation_id":"x","memory_mb":1e400`), 0, "", []string{"memory_mb"}},
		{"memory as text", of(allocate, `"allocation_id":"x","memory_mb":"4096"`), 422, "invalid_request", []string{"memory_mb"}},
		{"no memory", of(allocate, `"allocation_id":"x"`), 422, "invalid_request", []string{"memory_mb"}},
		{"empty id", of(allocate, `"allocation_id":"","memory_mb":1`), 422, "invalid_request", []string{"allocation_id"}},
		{"no id", of(allocate, `"memory_mb":1`), 422, "invalid_request", []string{"allocation_id"}},
		{"huge id", of(allocate, `"allocation_id":"`+long+`","memory_mb":1`), 422, "invalid_request", []string{"allocation_id"}},
		{"binary id", of(allocate, `"allocation_id":"a\u0000b","memory_mb":1`), 422, "invalid_request", []string{"allocation_id"}},
		{"id of broken text", of(allocate, "\"allocation_id\":\"a\xffb\",\"memory_mb\":1"), 422, "invalid_request", []string{"allocation_id"}},
		{"id turned around", of(allocate, `"allocation_id":"a\u202eb","memory_mb":1`), 422, "invalid_request", []string{"allocation_id"}},
		{"duplicate id", of(allocate, `"allocation_id":"held","memory_mb":1`), 409, "duplicate_allocation", nil},
		{"a century", of(allocate, `"allocation_id":"x","memory_mb":1,"ttl_seconds":3155760000`), 422, "invalid_request", []string{"ttl_seconds"}},
		{"no time at all", of(allocate, `"allocation_id":"x","memory_mb":1,"ttl_seconds":0`), 422, "invalid_request", []string{"ttl_seconds"}},
		{"hardly any time", of(allocate, `"allocation_id":"x","memory_mb":1,"ttl_seconds":1e-12`), 422, "invalid_request", []string{"must be from 1 to 2592000 (30 days)"}},
		{"a number of seconds beyond all clocks", of(allocate, `"allocation_id":"x","memory_mb":1,"ttl_seconds":1e300`), 422, "invalid_request", []string{"must be from 1 to 2592000 (30 days)"}},
		{"negative time", of(allocate, `"allocation_id":"x","memory_mb":1,"ttl_seconds":-5`), 422, "invalid_request", []string{"ttl_seconds"}},
		{"negative wait", of(allocate, `"allocation_id":"x","memory_mb":1,"timeout_seconds":-5`), 422, "invalid_request", []string{"timeout_seconds"}},
		{"a century of waiting", of(allocate, `"allocation_id":"x","memory_mb":1,"timeout_seconds":3155760000`), 422, "invalid_request", []string{"timeout_seconds"}},
		{"unknown device", of(allocate, `"allocation_id":"x","memory_mb":1,"gpu":"9"`), 404, "unknown_device", nil},
		{"more than is left", of(allocate, `"allocation_id":"x","memory_mb":7600,"gpu":"0"`), 409, "insufficient_memory", nil},
		{"more than there ever is", of(allocate, `"allocation_id":"x","memory_mb":99999,"timeout_seconds":60`), 409, "insufficient_memory", nil},
		{"huge service name", of(allocate, `"allocation_id":"x","memory_mb":1,"service":"`+long+`"`), 422, "invalid_request", []string{"service"}},
		{"over the service's maximum", of(allocate, `"allocation_id":"x","memory_mb":1025,"service":"small"`), 409, "over_service_maximum", nil},
		{"a service of others", of(allocate, `"allocation_id":"x","memory_mb":1,"service":"theirs"`), 403, "user_not_allowed", nil},
		{"over the quota", of(allocate, `"allocation_id":"x","memory_mb":150,"service":"rations"`), 409, "over_quota", nil},
		{"over any priority", of(allocate, `"allocation_id":"x","memory_mb":1,"priority":9999999`), 422, "invalid_request", []string{"priority"}},
		{"unknown field", of(allocate, `"allocation_id":"x","memory_mb":1,"colour":"red"`), 422, "invalid_request", []string{"colour"}},
		{"not an object", raw("POST", "/api/gpu/memory/allocate", `[]`), 422, "invalid_request", nil},
		{"half an object", raw("POST", "/api/gpu/memory/allocate", `{"allocation_id":`), 400, "malformed_body", nil},
		{"a body of 2 MiB", raw("POST", "/api/gpu/memory/allocate", `{"allocation_id":"`+strings.Repeat("x", 2<<20)+`"}`), 413, "body_too_large", nil},

		{"a device that is neither text nor an index", of(allocate, `"allocation_id":"x","memory_mb":1,"gpu":1.5`), 422, "invalid_request", []string{"gpu: expected the index of a device, such as 0, or its UUID in quotes"}},
		{"more memory than any machine has", of(allocate, `"allocation_id":"x","memory_mb":1073741825`), 422, "invalid_request", []string{"1073741824"}},

		{"binary id of another path", of(acquire, `"id":"a\u0000b"`), 422, "invalid_request", []string{"id: contains"}},
		{"binary name", of(acquire, `"name":"a\u0007b"`), 422, "invalid_request", []string{"name: contains"}},
		{"binary service", of(acquire, `"service":"a\u001bb"`), 422, "invalid_request", []string{"service: contains"}},
		{"nothing asked for", of(acquire, `"slots":0`), 422, "invalid_request", []string{"memory_mb"}},
		{"negative slots", of(acquire, `"slots":-1`), 422, "invalid_request", []string{"slots"}},
		{"no device", of(acquire, `"gpus":0`), 422, "invalid_request", []string{"gpus"}},
		{"more devices than exist", of(acquire, `"gpus":3,"timeout_seconds":60`), 409, "no_fitting_device", []string{"2 devices"}},
		{"more slots than exist", of(acquire, `"slots":3,"timeout_seconds":60`), 409, "no_fitting_device", nil},
		{"unknown policy", of(acquire, `"policy":"best"`), 422, "invalid_request", []string{"policy"}},
		{"unknown constraint", of(acquire, `"where":"colour=red"`), 422, "invalid_request", []string{"where"}},
		{"unknown binding", of(acquire, `"binding":"for ever"`), 422, "invalid_request", []string{"binding"}},
		{"a named lease with an end", of(acquire, `"binding":"named","ttl_seconds":60`), 422, "invalid_request", []string{"ttl_seconds"}},
		{"a lease with an end and none given", of(acquire, `"binding":"ttl"`), 422, "invalid_request", []string{"ttl_seconds"}},
		{"bound to a process that nobody knows", of(acquire, `"binding":"process"`), 422, "invalid_request", []string{"binding"}},
		{"bound to a process of others", of(acquire, `"pid":`+stranger), 403, "not_yours", nil},
		{"bound to a process that is gone", of(acquire, `"pid":2147483647`), 409, "process_gone", nil},
		{"negative pid", of(acquire, `"pid":-1`), 422, "invalid_request", []string{"pid"}},

		{"deallocating nothing", raw("POST", "/api/gpu/memory/deallocate", `{"allocation_id":"x"}`), 404, "unknown_allocation", nil},
		{"deallocating what is not theirs", raw("POST", "/api/gpu/memory/deallocate", `{"allocation_id":"theirs"}`), 404, "unknown_allocation", nil},
		{"deallocating what is another user's", raw("POST", "/api/gpu/memory/deallocate", `{"allocation_id":"theirs","user":"user2"}`), 403, "not_yours", nil},
		{"deallocating for a user without end", raw("POST", "/api/gpu/memory/deallocate", `{"allocation_id":"theirs","user":"`+strings.Repeat("u", 257)+`"}`), 422, "invalid_request", nil},
		{"deallocating without an id", raw("POST", "/api/gpu/memory/deallocate", `{}`), 422, "invalid_request", []string{"allocation_id"}},
		{"releasing nothing", raw("DELETE", "/api/leases/x", ""), 404, "unknown_allocation", nil},
		{"releasing what is not theirs", raw("DELETE", "/api/leases/theirs", ""), 404, "unknown_allocation", nil},
		{"releasing what is another user's", raw("DELETE", "/api/leases/theirs?user=user2", ""), 403, "not_yours", nil},
		{"releasing what another user has not", raw("DELETE", "/api/leases/nothing?user=user2", ""), 403, "not_yours", nil},
		{"looking at what another user has not", raw("GET", "/api/leases/mine?user=user2", ""), 404, "unknown_allocation", nil},
		{"releasing with a fence of another", raw("DELETE", "/api/leases/held?fence=2", ""), 409, "stale_fence", nil},
		{"releasing with a fence that was never given", raw("DELETE", "/api/leases/held?fence=999999", ""), 409, "unknown_fence", nil},
		{"releasing with a fence that is none", raw("DELETE", "/api/leases/held?fence=x", ""), 422, "invalid_request", []string{"fence"}},
		{"releasing a binary id", raw("DELETE", "/api/leases/%00%ff", ""), 404, "unknown_allocation", nil},
		{"one that is not there", raw("GET", "/api/leases/x", ""), 404, "unknown_allocation", nil},
		{"renewing nothing", raw("POST", "/api/leases/x/renew", `{"fence":0}`), 404, "unknown_allocation", nil},
		{"renewing what is not theirs", raw("POST", "/api/leases/theirs/renew", `{"fence":2}`), 409, "stale_fence", nil},
		{"renewing what is another user's", raw("POST", "/api/leases/theirs/renew?user=user2", `{"fence":2}`), 403, "not_yours", nil},
		{"renewing a named lease", raw("POST", "/api/leases/held/renew", `{"fence":1}`), 409, "no_time_to_live", nil},
		{"renewing for hardly any time", raw("POST", "/api/leases/held/renew", `{"fence":1,"ttl_seconds":1e-12}`), 422, "invalid_request", []string{"ttl_seconds"}},
		{"renewing for no time", raw("POST", "/api/leases/held/renew", `{"fence":1,"ttl_seconds":0}`), 422, "invalid_request", []string{"ttl_seconds"}},
		{"explaining what does not wait", raw("GET", "/api/leases/x/explain", ""), 404, "unknown_allocation", nil},
		{"explaining nonsense", raw("POST", "/api/leases/explain", `{"memory_mb":-1}`), 422, "invalid_request", []string{"memory_mb"}},
		{"adopting nothing", raw("POST", "/api/leases/adopt", `{"pid":0}`), 422, "invalid_request", []string{"pid"}},
		{"adopting for a binary service", raw("POST", "/api/leases/adopt", `{"pid":`+stranger+`,"service":"a\u001bb"}`), 422, "invalid_request", []string{"service: contains"}},
		{"adopting a process of others", raw("POST", "/api/leases/adopt", `{"pid":`+stranger+`}`), 403, "not_yours", nil},
		{"adopting a process that is gone", raw("POST", "/api/leases/adopt", `{"pid":2147483647}`), 409, "process_gone", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := d.askAs(mine, "GET", "/api/leases", "").Body.String()
			method, path, body := test.request()
			w := d.askAs(mine, method, path, body)
			if test.status == 0 { // which of the two it is, is up to the reader of JSON
				if w.Code != 400 && w.Code != 422 {
					t.Errorf("answer is %d: %s", w.Code, w.Body)
				}
			} else {
				expect(t, test.name, w, test.status, test.code, test.fields...)
			}
			if strings.Contains(w.Body.String(), "goroutine") || strings.Contains(w.Body.String(), "Go struct") {
				t.Errorf("the answer shows the inside: %s", w.Body)
			}
			if diff := cmp.Diff(before, d.askAs(mine, "GET", "/api/leases", "").Body.String()); diff != "" {
				t.Errorf("something changed (-before +after):\n%s", diff)
			}
		})
	}
	expect(t, "wrong type of body", d.askAs(mine, "POST", "/api/leases", "{}", "Content-Type", "text/xml"), 415, "unsupported_media_type")
}

// othersPID is a process of a user that is not user 1.
func othersPID(t *testing.T) string {
	t.Helper()
	uid, err := process.Proc().UID(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if uid == 1 {
		t.Skip("this test runs as the very user that it makes up")
	}
	return fmt.Sprint(os.Getpid())
}

func TestRefusalSaysWhatThereIs(t *testing.T) {
	d := open(t, "2xrtx-4060")
	p := expect(t, "too much", d.ask("POST", "/api/gpu/memory/allocate", `{"allocation_id":"x","memory_mb":99999}`), 409, "insufficient_memory")
	text, err := json.Marshal(p.Extra)
	if err != nil {
		t.Fatal(err)
	}
	var extra struct {
		Requested   gpu.MiB `json:"requested_mb"`
		Available   gpu.MiB `json:"available_mb"`
		LargestEver gpu.MiB `json:"largest_ever_mb"`
		Possible    bool
		Devices     []api.Obstacle
	}
	if err := json.Unmarshal(text, &extra); err != nil {
		t.Fatal(err)
	}
	if extra.Requested != 99999 || extra.Available <= 0 || extra.LargestEver < extra.Available || extra.Possible || len(extra.Devices) != 2 {
		t.Errorf("the numbers are %s", text)
	}
	granted := fmt.Sprintf(`{"allocation_id":"x","memory_mb":%d}`, extra.Available)
	expect(t, "what was said to be available", d.ask("POST", "/api/gpu/memory/allocate", granted), 201, "")
}

func TestRequestUnderTheMinimumIsRaised(t *testing.T) {
	d := open(t, "1xrtx-4060")
	d.Ledger.Configure(quota.Settings{
		Device:   func(string) quota.DeviceSettings { return quota.DeviceSettings{MaxPipelines: 2} },
		Services: map[string]quota.Served{"s": {Service: quota.Service{Name: "s", MinMemory: 256}}},
	})
	w := d.ask("POST", "/api/gpu/memory/allocate", `{"allocation_id":"x","memory_mb":1,"service":"s"}`)
	l := decode[api.Lease](t, w)
	if w.Code != 201 || l.Parts[0].Memory != 256 || !strings.Contains(l.Note, "raised from 1 MiB to the service's minimum of 256 MiB") {
		t.Errorf("answer is %d: %s", w.Code, w.Body)
	}
}

// What a user may have, and has of it, is for that user and for operators.
func TestLimitsOfOthersAreNotExplained(t *testing.T) {
	d := open(t, "1xrtx-4060")
	d.server.Ledger.Configure(quota.Settings{
		Device: func(string) quota.DeviceSettings { return quota.DeviceSettings{Reserve: 512, MaxPipelines: 2} },
		Limits: quota.Lookup{Generation: 1, Of: func(s lease.Subject) *lease.Limits {
			l := lease.Builtin()
			l.Subject, l.Generation, l.Memory = s, 1, lease.Limit[gpu.MiB]{Opt: gpu.Some[gpu.MiB](3000), Source: "users.ada"}
			return &l
		}},
	})
	ada := user(4711)
	expect(t, "some of it", d.askAs(ada, "POST", "/api/gpu/memory/allocate", `{"allocation_id":"a","memory_mb":2000}`), 201, "")
	ctx, leave := context.WithCancel(t.Context())
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		r := httptest.NewRequest("POST", "/api/leases", strings.NewReader(`{"id":"w","memory_mb":2000,"timeout_seconds":600}`))
		r.Header.Set("Content-Type", "application/json")
		d.ServeHTTP(httptest.NewRecorder(), r.WithContext(withIdentity(ctx, ada)))
	}()
	for d.ask("GET", "/api/leases/w", "").Code != http.StatusOK { // until it stands in the queue
		runtime.Gosched()
	}
	for _, c := range []struct {
		by   doorkeeper.Identity
		sees bool
	}{{ada, true}, {holding(lease.Holder{UID: 9, User: "op"}, access.Operator), true}, {user(4712), false}, {doorkeeper.IdentityFor(viewer()), false}} {
		e := decode[api.Explanation](t, d.askAs(c.by, "GET", "/api/leases/w/explain", ""))
		if strings.Contains(e.Text, "users.ada") != c.sees || !strings.Contains(e.Text, "limit") || e.Fits {
			t.Errorf("%s reads %q", c.by.User, e.Text)
		}
	}
	leave()
	<-answered
}

// A request that waits can be looked at by its id.
func TestWaitingRequestIsFound(t *testing.T) {
	d := open(t, "1xrtx-4060")
	expect(t, "all of it", d.ask("POST", "/api/gpu/memory/allocate", `{"allocation_id":"big","memory_mb":7000}`), 201, "")
	ctx, leave := context.WithCancel(t.Context())
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		r := httptest.NewRequest("POST", "/api/leases", strings.NewReader(`{"id":"w","memory_mb":5000,"timeout_seconds":600}`))
		r.Header.Set("Content-Type", "application/json")
		d.ServeHTTP(httptest.NewRecorder(), r.WithContext(ctx))
	}()
	var l api.Lease
	for l.State == "" { // until it stands in the queue
		if w := d.ask("GET", "/api/leases/w", ""); w.Code == http.StatusOK {
			l = decode[api.Lease](t, w)
		}
		runtime.Gosched()
	}
	if l.State != "waiting" || l.Fence != 0 || len(l.Parts) != 0 || l.Waiting == nil || l.Waiting.Position != 1 || l.Waiting.Memory != 5000 {
		t.Errorf("it is %+v", l)
	}
	expect(t, "to trim what waits", d.ask("POST", "/api/leases/w/trim", ""), 409, "still_waiting")
	whole := decode[api.Explanation](t, d.ask("GET", "/api/leases/w/explain", ""))
	brief := decode[api.Explanation](t, d.ask("GET", "/api/leases/w/explain?brief=true", ""))
	if len(whole.Devices) != 1 || len(whole.Ranking) != 1 || len(brief.Devices) != 0 || len(brief.Ranking) != 0 || brief.Text != whole.Text || brief.Text == "" {
		t.Errorf("it is explained as %+v, and in brief as %+v", whole, brief)
	}
	e := decode[api.Explanation](t, d.ask("POST", "/api/leases/explain", `{"memory_mb":5000,"slots":0}`))
	now := fmt.Sprintf(`{"allocation_id":"now","memory_mb":%d}`, e.LargestNow)
	if e.LargestNow <= 0 || e.LargestEver <= e.LargestNow {
		t.Errorf("it is explained as %+v", e)
	}
	expect(t, "what would be granted now", d.ask("POST", "/api/gpu/memory/allocate", now), 201, "")
	leave()
	<-answered
}

func TestExplainOfWhatFits(t *testing.T) {
	d := open(t, "1xrtx-4060")
	e := decode[api.Explanation](t, d.ask("POST", "/api/leases/explain", `{"memory_mb":1000}`))
	if !e.Fits || e.LargestNow < 1000 || e.LargestEver < e.LargestNow || e.Grant == nil || e.Grant.State != "active" {
		t.Errorf("it is explained as %+v", e)
	}
}

// The life of a lease over the API, until after its end.
func TestLeaseLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, "1xrtx-4060")
		w := d.ask("POST", "/api/gpu/memory/allocate", `{"allocation_id":"x","memory_mb":1000,"ttl_seconds":60}`)
		l := decode[api.Lease](t, w)
		if w.Code != http.StatusCreated || l.ID != "x" || l.Fence == 0 || l.Binding != "ttl" || l.Expires == nil || !l.Expires.Equal(l.Granted.Add(time.Minute)) {
			t.Fatalf("answer is %d: %s", w.Code, w.Body)
		}
		time.Sleep(50 * time.Second)
		renew := fmt.Sprintf(`{"fence":%d}`, l.Fence)
		r := decode[api.Lease](t, d.ask("POST", "/api/leases/x/renew", renew))
		if r.Fence != l.Fence || r.Expires == nil || !r.Expires.Equal(time.Now().Add(time.Minute)) {
			t.Errorf("renewed, it is %+v", r)
		}
		if got := decode[api.Lease](t, d.ask("GET", "/api/leases/x", "")); got.Fence != l.Fence {
			t.Errorf("looked up, it is %+v", got)
		}
		time.Sleep(61 * time.Second)
		expect(t, "renewed after its end", d.ask("POST", "/api/leases/x/renew", renew), 409, "stale_fence")
		expect(t, "released after its end", d.ask("DELETE", fmt.Sprintf("/api/leases/x?fence=%d", l.Fence), ""), 409, "stale_fence")
		expect(t, "deallocated after its end", d.ask("POST", "/api/gpu/memory/deallocate", `{"allocation_id":"x"}`), 404, "unknown_allocation")

		again := decode[api.Lease](t, d.ask("POST", "/api/gpu/memory/allocate", `{"allocation_id":"x","memory_mb":1000}`))
		if again.Fence <= l.Fence {
			t.Errorf("fence %d came after %d", again.Fence, l.Fence)
		}
		expect(t, "the next one, with the old fence", d.ask("DELETE", fmt.Sprintf("/api/leases/x?fence=%d", l.Fence), ""), 409, "stale_fence")
		ended := decode[api.Ended](t, d.ask("POST", "/api/gpu/memory/deallocate", `{"allocation_id":"x"}`))
		if ended.Lease == nil || ended.Lease.Fence != again.Fence || ended.Lease.State != "released" {
			t.Errorf("ended was %+v", ended)
		}
	})
}
