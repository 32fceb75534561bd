package httpapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
	"github.com/berth-gpu/berth/internal/lease"
)

// driver returns the token of another scheduler.
func driver(name string) doorkeeper.Identity {
	return holding(lease.Holder{UID: lease.NoUID, User: "token:" + name}, access.Operator)
}

// exact returns the body of a request for these parts of two devices.
func (d *door) exact(id, more string, parts ...api.LeaseShare) string {
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = fmt.Sprintf(`{"gpu":%q,"memory_mb":%d,"slots":%d}`, p.GPU, int64(p.Memory), p.Slots)
	}
	return fmt.Sprintf(`{"id":%q,"parts":[%s],"admitted":true%s}`, id, strings.Join(texts, ","), more)
}

func (d *door) uuids() (list []string) {
	for _, r := range d.Monitor.Readings() {
		list = append(list, r.Device.UUID)
	}
	return list
}

// An exact request is for operators, and the same one again finds its lease.
func TestExactLease(t *testing.T) {
	d := open(t, "2xrtx-4060")
	on, kubernetes := d.uuids(), driver("kubernetes")
	parts := []api.LeaseShare{{GPU: on[0], Memory: 3000, Slots: 1}, {GPU: on[1], Memory: 5000}}
	ask := func(who doorkeeper.Identity, body string) (int, api.Lease) {
		t.Helper()
		w := d.askAs(who, "POST", "/api/leases", body)
		return w.Code, decode[api.Lease](t, w)
	}
	for name, who := range map[string]doorkeeper.Identity{"a user": user(4711), "a viewer": {Actor: viewer()}} {
		p := expect(t, name, d.askAs(who, "POST", "/api/leases", d.exact("c", "", parts...)), http.StatusForbidden, "not_allowed")
		if name == "a user" && !strings.Contains(p.Detail, "operator") {
			t.Errorf("a user reads %q", p.Detail)
		}
	}
	status, first := ask(kubernetes, d.exact("c", `,"scope":["pod0d9f7e4c-4f3e-4b0f-9d77-000000000001"]`, parts...))
	if status != http.StatusCreated || first.Stood || first.Fence == 0 || first.Binding != "named" {
		t.Errorf("%d %+v", status, first)
	}
	want := []api.LeasePart{{GPU: on[0], Memory: 3000, Slots: 1}, {GPU: on[1], Memory: 5000}}
	if !slices.Equal(first.Parts, want) {
		t.Errorf("it has %+v", first.Parts)
	}
	status, again := ask(kubernetes, d.exact("c", `,"scope":["pod0d9f7e4c-4f3e-4b0f-9d77-000000000002","pod0d9f7e4c-4f3e-4b0f-9d77-000000000001"]`, parts[1], parts[0]))
	if status != http.StatusOK || !again.Stood || again.Fence != first.Fence || !slices.Equal(again.Scope, []string{"pod0d9f7e4c-4f3e-4b0f-9d77-000000000001", "pod0d9f7e4c-4f3e-4b0f-9d77-000000000002"}) || !slices.Equal(again.Parts, want) {
		t.Errorf("the same again: %d %+v", status, again)
	}
	if w := d.ask("GET", "/openapi.json", ""); !strings.Contains(w.Body.String(), "The lease stands already: the request was made again.") {
		t.Error("/openapi.json does not say that a lease may stand already")
	}
	more := parts[0]
	more.Memory++
	p := expect(t, "another amount", d.askAs(kubernetes, "POST", "/api/leases", d.exact("c", "", more)), http.StatusConflict, "duplicate_allocation")
	for _, text := range []string{
		"it has 2.93 GiB and 1 slot on " + on[0] + ", where the request is for 2.931 GiB and 1 slot",
		"it has 4.883 GiB and 0 slots on " + on[1] + ", where the request is for nothing",
	} {
		if !strings.Contains(p.Detail, text) {
			t.Errorf("%q does not say %q", p.Detail, text)
		}
	}
	// The id of another user is another id.
	if status, other := ask(driver("slurm"), d.exact("c", "", api.LeaseShare{GPU: on[0], Memory: 100})); status != http.StatusCreated || other.Fence == first.Fence {
		t.Errorf("the same id of somebody else: %d %+v", status, other)
	}
	// An ordinary request with the id is refused as ever.
	expect(t, "an ordinary request", d.askAs(kubernetes, "POST", "/api/leases", `{"id":"c","memory_mb":1,"timeout_seconds":0}`), http.StatusConflict, "duplicate_allocation")

	path := "/api/leases/c?user=token:kubernetes&fence="
	expect(t, "an old fence", d.askAs(kubernetes, "DELETE", path+fmt.Sprint(first.Fence+1), ""), http.StatusConflict, "stale_fence")
	expect(t, "its release", d.askAs(kubernetes, "DELETE", path+fmt.Sprint(first.Fence), ""), http.StatusOK, "")
	if status, next := ask(kubernetes, d.exact("c", "", more)); status != http.StatusCreated || next.Fence <= again.Fence {
		t.Errorf("after its release: %d %+v", status, next)
	}
}

func TestExactLeaseIsRefused(t *testing.T) {
	d := open(t, "2xrtx-4060")
	on, kubernetes := d.uuids(), driver("kubernetes")
	good := api.LeaseShare{GPU: on[0], Memory: 1000, Slots: 1}
	for what, c := range map[string]struct {
		body   string
		status int
		code   string
		fields []string
	}{
		"parts alone":          {fmt.Sprintf(`{"id":"c","parts":[{"gpu":%q,"memory_mb":1,"slots":1}]}`, on[0]), http.StatusUnprocessableEntity, "invalid_request", []string{"admitted"}},
		"admitted alone":       {`{"id":"c","memory_mb":1,"admitted":true}`, http.StatusUnprocessableEntity, "invalid_request", []string{"parts", "memory_mb"}},
		"no id":                {d.exact("", "", good), http.StatusUnprocessableEntity, "invalid_request", []string{"id"}},
		"everything else":      {d.exact("c", `,"gpus":2,"memory_mb":1,"slots":1,"gpu":"0","prefer":"0","policy":"pack","where":"vendor=nvidia","learned_memory":true,"parent":"p","timeout_seconds":1,"binding":"process"`, good), http.StatusUnprocessableEntity, "invalid_request", []string{"gpus", "memory_mb", "slots", "gpu", "prefer", "policy", "where", "learned_memory", "parent", "timeout_seconds", "binding"}},
		"a device twice":       {d.exact("c", "", good, good), http.StatusUnprocessableEntity, "invalid_request", []string{"parts[1].gpu"}},
		"nothing":              {d.exact("c", "", api.LeaseShare{GPU: on[0]}), http.StatusUnprocessableEntity, "invalid_request", []string{"parts[0].memory_mb"}},
		"less than nothing":    {d.exact("c", "", api.LeaseShare{GPU: on[0], Memory: -1}), http.StatusUnprocessableEntity, "invalid_request", nil},
		"no device":            {d.exact("c", "", good, api.LeaseShare{GPU: "GPU-none", Memory: 1}), http.StatusNotFound, "unknown_device", nil},
		"an index":             {d.exact("c", "", api.LeaseShare{GPU: "0", Memory: 1}), http.StatusNotFound, "unknown_device", nil},
		"too much memory":      {d.exact("c", "", good, api.LeaseShare{GPU: on[1], Memory: 1 << 20}), http.StatusConflict, "insufficient_memory", nil},
		"too many slots":       {d.exact("c", "", good, api.LeaseShare{GPU: on[1], Memory: 1, Slots: 3}), http.StatusConflict, "no_slot", nil},
		"a scope with a slash": {d.exact("c", `,"scope":["/pod"]`, good), http.StatusUnprocessableEntity, "invalid_request", []string{"scope"}},
	} {
		expect(t, what, d.askAs(kubernetes, "POST", "/api/leases", c.body), c.status, c.code, c.fields...)
	}
	expect(t, "an explanation", d.askAs(kubernetes, "POST", "/api/leases/explain", d.exact("c", "", good)), http.StatusUnprocessableEntity, "invalid_request", "parts")
	if all := decode[api.Leases](t, d.askAs(kubernetes, "GET", "/api/leases", "")); len(all.Leases) != 0 || len(all.Waiting) != 0 {
		t.Errorf("what was refused left %+v", all)
	}
	p := expect(t, "one part that does not fit", d.askAs(kubernetes, "POST", "/api/leases", d.exact("c", "", good, api.LeaseShare{GPU: on[1], Memory: 1000000, Slots: 1})), http.StatusConflict, "insufficient_memory")
	if !strings.Contains(p.Detail, "GPU 1 ("+on[1]+") can never lease 976.563 GiB") || strings.Contains(p.Detail, "GPU 0") {
		t.Errorf("it says %q", p.Detail)
	}
}
