package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
)

// Which control groups a lease covers is for administrators; a unit may be named
// by whoever runs what is in it.
func TestScopeAndUnit(t *testing.T) {
	d := open(t, "1")
	root := holding(lease.Holder{UID: 0, User: "root"}, access.Admin)
	ada := user(4711)
	expect(t, "a scope of a user", d.askAs(ada, "POST", "/api/leases", `{"id":"a","memory_mb":1,"scope":["pod0d9f7e4c-4f3e-4b0f-9d77-000000000001"]}`), http.StatusForbidden, "not_allowed")
	for body, field := range map[string]string{
		`{"id":"a","memory_mb":1,"unit":"user.slice"}`:                                           "unit",
		`{"id":"a","memory_mb":1,"unit":"/system.slice/x"}`:                                      "unit",
		`{"id":"a","memory_mb":1,"scope":["/kubepods/pod0d9f7e4c-4f3e-4b0f-9d77-000000000001"]}`: "scope",
		`{"id":"a","memory_mb":1,"scope":["` + "\u202e" + `pod"]}`:                               "scope",
	} {
		if w := d.askAs(root, "POST", "/api/leases", body); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), `"`+field+`"`) {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	for _, name := range []string{"system.slice", "system.scope/..", "user@0.service", "session-1.scope", "init.scope", "kubepods", "pod1", ""} {
		body := fmt.Sprintf(`{"id":"a","memory_mb":1,"scope":[%q]}`, name)
		if w := d.askAs(root, "POST", "/api/leases", body); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), "name a pod (pod and its UID), a container") {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	unit := decode[api.Lease](t, d.askAs(ada, "POST", "/api/leases", `{"id":"a","memory_mb":1,"unit":"nowhere.service"}`))
	if unit.Unit != "nowhere.service" || !strings.Contains(unit.Note, "no process runs in unit nowhere.service now; those of user user4711 are counted when they do") {
		t.Errorf("a unit that does not exist: %+v", unit)
	}

	scoped := decode[api.Lease](t, d.askAs(root, "POST", "/api/leases", `{"id":"s","memory_mb":1,"scope":["pod0d9f7e4c-4f3e-4b0f-9d77-000000000001"]}`))
	path := "/api/leases/s/scope"
	expect(t, "a user changes a scope", d.askAs(ada, "POST", path, `{"add":["pod0d9f7e4c-4f3e-4b0f-9d77-000000000002"]}`), http.StatusForbidden, "not_allowed")
	expect(t, "an old fence", d.askAs(root, "POST", path, fmt.Sprintf(`{"fence":%d,"add":["pod0d9f7e4c-4f3e-4b0f-9d77-000000000002"]}`, scoped.Fence-1)), http.StatusConflict, "stale_fence")
	expect(t, "no such lease", d.askAs(root, "POST", "/api/leases/none/scope", `{"add":["pod0d9f7e4c-4f3e-4b0f-9d77-000000000002"]}`), http.StatusNotFound, "unknown_allocation")
	expect(t, "a name that is too long", d.askAs(root, "POST", path, `{"add":["`+strings.Repeat("x", 129)+`"]}`), http.StatusUnprocessableEntity, "invalid_request")
	if w := d.askAs(root, "POST", path, `{"add":["system.slice"]}`); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), `"add"`) || !strings.Contains(w.Body.String(), "name a pod") {
		t.Errorf("a slice is added to a scope: %d %s", w.Code, w.Body)
	}
	changed := decode[api.Lease](t, d.askAs(root, "POST", path, fmt.Sprintf(`{"fence":%d,"add":["pod0d9f7e4c-4f3e-4b0f-9d77-000000000002","pod0d9f7e4c-4f3e-4b0f-9d77-000000000003"],"remove":["pod0d9f7e4c-4f3e-4b0f-9d77-000000000001"]}`, scoped.Fence)))
	listed := decode[api.Lease](t, d.askAs(root, "GET", "/api/leases/s", ""))
	for _, l := range []api.Lease{changed, listed} {
		if diff := cmp.Diff([]string{"pod0d9f7e4c-4f3e-4b0f-9d77-000000000002", "pod0d9f7e4c-4f3e-4b0f-9d77-000000000003"}, l.Scope); diff != "" {
			t.Error(diff)
		}
	}
	for _, memory := range []int{1, 2} {
		expect(t, "another size", d.askAs(root, "POST", "/api/leases/s/resize", fmt.Sprintf(`{"memory_mb":%d}`, memory)), http.StatusConflict, "wrong_state")
	}
	if seen := decode[api.Lease](t, d.askAs(ada, "GET", "/api/leases/s", "")); seen.Scope != nil {
		t.Errorf("another user sees the scope %v", seen.Scope)
	}
}
