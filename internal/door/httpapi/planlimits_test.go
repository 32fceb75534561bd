package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/api"
)

// A name of megabytes once went into an event, the log and every stream, and a
// device of that length into the refusal of each of thousands of runs.
func TestOverlongFieldsOfPlansAreRefused(t *testing.T) {
	d := openPlans(t, "1xrtx-4060")
	long := strings.Repeat("x", 1<<20)
	pipelines := strings.TrimPrefix(wells(1, ""), "{")
	plan := func(fields, run string) string {
		return `{"plan":{"pipelines":[{"name":"p","memory_mb":100,"slots":1` + fields + `,"runs":[{"name":"p"` + run + `}]}]}}`
	}
	before, _ := d.events.Kept(0)
	for _, c := range []struct{ path, body, field string }{
		{"/api/plans", `{"name":"` + long + `",` + pipelines, "name"},
		{"/api/plans", `{"interpreter":"` + long + `",` + pipelines, "interpreter"},
		{"/api/plans", `{"probe_error":"` + long + `",` + pipelines, "probe_error"},
		{"/api/plans", `{"libraries":{"` + long + `":{}},` + pipelines, "libraries"},
		{"/api/plans", `{"libraries":{"cupy":{"version":"` + long + `"}},` + pipelines, "libraries.cupy.version"},
		{"/api/plans", `{"libraries":{"cupy":{"reason":"` + long + `"}},` + pipelines, "libraries.cupy.reason"},
		{"/api/plans", `{"libraries":{"cupy":{"error":"` + long + `"}},` + pipelines, "libraries.cupy.error"},
		{"/api/plans", `{"libraries":{"cupy":{"status":"` + long + `"}},` + pipelines, "libraries.cupy.status"},
		{"/api/plans", `{"libraries":{"cupy":{"devices_unknown":"` + long + `"}},` + pipelines, "libraries.cupy.devices_unknown"},
		{"/api/plans", `{"libraries":{"cupy":{"devices":[{"name":"` + long + `"}]}},` + pipelines, "libraries.cupy.devices[0].name"},
		{"/api/plans/run", `{"name":"` + long + `",` + pipelines, "name"},
		{"/api/plans/run", plan(`,"gpu":"`+long+`"`, ""), "plan.pipelines[0].gpu"},
		{"/api/plans/run", plan(`,"service":"`+long+`"`, ""), "plan.pipelines[0].service"},
		{"/api/plans/run", plan(`,"policy":"`+long+`"`, ""), "plan.pipelines[0].policy"},
		{"/api/plans/run", plan(`,"candidates":["`+long+`"]`, ""), "plan.pipelines[0].candidates[0]"},
		{"/api/plans/run", plan("", `,"gpu":"`+long+`"`), "plan.pipelines[0].runs[0].gpu"},
		{"/api/plans/run", `{"plan":{"pipelines":[{"name":"` + long + `","runs":[{"name":"p"}]}]}}`, "plan.pipelines[0].name"},
		{"/api/plans/run", `{"plan":{"pipelines":[{"name":"p","runs":[{"name":"` + long + `"}]}]}}`, "plan.pipelines[0].runs[0].name"},
		{"/api/plans/run", `{"runs":["` + long + `"],` + pipelines, "runs[0]"},
		{"/api/plans/run", `{"id":"` + long + `",` + pipelines, "id"},
	} {
		w := d.asUser(t, c.path, c.body)
		p := decode[api.Problem](t, w)
		if w.Code != http.StatusUnprocessableEntity || p.Code != "invalid_request" || len(p.Fields) != 1 || p.Fields[0].Field != c.field || !strings.Contains(p.Fields[0].Detail, "characters") {
			t.Errorf("%s of %s: %d %.300s", c.field, c.path, w.Code, w.Body)
		}
		if w.Body.Len() > 4096 {
			t.Errorf("%s of %s: an answer of %d bytes", c.field, c.path, w.Body.Len())
		}
	}
	after, _ := d.events.Kept(0)
	for _, e := range after[len(before):] {
		if len(e.Text) > 4096 {
			t.Errorf("an event of %d bytes", len(e.Text))
		}
	}
}

func TestOverlongListsOfPlansAreRefused(t *testing.T) {
	d := openPlans(t, "1xrtx-4060")
	runs := strings.TrimSuffix(strings.Repeat(`"plate",`, 10_000+1), ",")
	w := d.asUser(t, "/api/plans/run", `{"runs":[`+runs+`],`+strings.TrimPrefix(wells(1, ""), "{"))
	if p := decode[api.Problem](t, w); w.Code != http.StatusUnprocessableEntity || len(p.Fields) != 1 || p.Fields[0].Field != "runs" {
		t.Errorf("%d %.300s", w.Code, w.Body)
	}
}
