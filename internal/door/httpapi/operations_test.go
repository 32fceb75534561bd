package httpapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

const embedderOperations = "/api/services/embedder/operations"

func TestServicesReportTheirWork(t *testing.T) {
	d := open(t, "2xrtx-4060")
	anna := user(4711)
	uuids := []string{}
	for _, r := range d.Monitor.Readings() {
		uuids = append(uuids, r.Device.UUID)
	}
	report := func(body string, want api.Counted) {
		t.Helper()
		w := d.askAs(anna, "POST", embedderOperations, body)
		var got api.Counted
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK || got != want {
			t.Errorf("%s: %d %s, want %+v", body, w.Code, w.Body, want)
		}
	}
	lease := func(id, gpu string) {
		t.Helper()
		if w := d.askAs(anna, "POST", "/api/leases", `{"id":"`+id+`","service":"embedder","memory_mb":100,"gpu":"`+gpu+`","binding":"named"}`); w.Code >= 300 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if w := d.askAs(anna, "POST", "/api/services/text_embedder/operations", `{"count":1}`); !strings.Contains(w.Body.String(), `"text-embedder"`) {
		t.Errorf("the other spelling of a service counts as %s", w.Body)
	}
	report(`{"count":5}`, api.Counted{Service: "embedder", Count: 5})
	report(`{"count":5,"gpu":"1"}`, api.Counted{Service: "embedder", Count: 5}) // it has no lease there
	lease("a", "1")
	report(`{"latencies":[0.1,0.2]}`, api.Counted{Service: "embedder", Count: 2, GPU: uuids[1]})
	report(`{"count":3,"seconds":1.5,"gpu":"1"}`, api.Counted{Service: "embedder", Count: 3, GPU: uuids[1]})
	lease("b", "0")
	report(`{"count":1}`, api.Counted{Service: "embedder", Count: 1})
	report(`{"count":1,"gpu":0}`, api.Counted{Service: "embedder", Count: 1, GPU: uuids[0]})
	got := map[string]uint64{}
	for _, total := range d.desk.Operations.Totals() {
		got[total.GPU] += total.Count
	}
	if diff := cmp.Diff(map[string]uint64{"": 12, uuids[0]: 1, uuids[1]: 5}, got); diff != "" {
		t.Errorf("the totals (-want +got):\n%s", diff)
	}
}

func TestReportsOfWorkThatAreRefused(t *testing.T) {
	d := open(t, "1xrtx-4060")
	d.Ledger.Configure(quota.Settings{
		Device:   func(string) quota.DeviceSettings { return quota.DeviceSettings{} },
		Services: map[string]quota.Served{"private": {Service: quota.Service{Name: "private", Users: []string{"root"}}}},
	})
	latencies := strings.TrimSuffix(strings.Repeat("1,", 10001), ",")
	for body, want := range map[string]string{
		`{}`:                                "invalid_request",
		`{"count":1000000000000}`:           "invalid_request",
		`{"count":-1}`:                      "invalid_request",
		`{"count":1.5}`:                     "invalid_request",
		`{"count":1,"seconds":-0.1}`:        "invalid_request",
		`{"count":1,"seconds":86401}`:       "invalid_request",
		`{"count":1,"seconds":1e999}`:       "malformed_body",
		`{"count":NaN}`:                     "malformed_body",
		`{"latencies":[NaN]}`:               "malformed_body",
		`{"latencies":[-1]}`:                "invalid_request",
		`{"latencies":[1],"count":2}`:       "invalid_request",
		`{"latencies":[1],"seconds":2}`:     "invalid_request",
		`{"latencies":[` + latencies + `]}`: "invalid_request",
		`{"count":1,"gpu":"9"}`:             "unknown_device",
		`{"operations":1}`:                  "invalid_request",
	} {
		refused(t, d.askAs(user(4711), "POST", embedderOperations, body), body, want)
	}
	refused(t, d.askAs(user(4711), "POST", "/api/services/private/operations", `{"count":1}`), "another user", "user_not_allowed")
	refused(t, d.askAs(user(4711), "POST", "/api/services/%20/operations", `{"count":1}`), "a name of spaces", "invalid_request")
	refused(t, d.askAs(doorkeeper.IdentityFor(viewer()), "POST", embedderOperations, `{"count":1}`), "a viewer", "not_allowed")
	if got := d.desk.Operations.Totals(); len(got) != 0 {
		t.Errorf("refused reports count as %+v", got)
	}
	if w := d.askAs(user(4711), "POST", embedderOperations, `{"count":100000000}`); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	refused(t, d.askAs(user(4711), "POST", embedderOperations, `{"count":100000000}`), "too much at once", "too_many_operations")
}

// refused expects a problem with this code.
func refused(t *testing.T, w *httptest.ResponseRecorder, what, code string) {
	t.Helper()
	var p api.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Code != code || w.Code < 400 {
		t.Errorf("%s: %d %s, want %s", what, w.Code, w.Body, code)
	}
}
