package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/api/wire"
)

func TestBounded(t *testing.T) {
	const most = 64 << 10 // 8,192 values, and 1,024 objects
	for name, c := range map[string]struct {
		text string
		fits bool
	}{
		"small, of nothing but objects":   {"[" + strings.Repeat("{},", smallText/3-2) + "{}]", true},
		"one long text":                   {`["` + strings.Repeat("[{,", most/4) + `"]`, true},
		"a text with quotes":              {`["` + strings.Repeat(`\",{`, most/8) + `"]`, true},
		"a text that ends in a backslash": {`["` + strings.Repeat(`\\`, most/8) + `",` + strings.Repeat("1,", most/4) + `1]`, false},
		"as many numbers as fit":          {"[" + strings.Repeat("1,", most/8-1) + "1]", true},
		"one number more":                 {"[" + strings.Repeat("1,", most/8) + "1]", false},
		"as many objects as fit":          {"[" + strings.Repeat("{ },  ", most/64-1) + "{}]", true},
		"one object more":                 {"[" + strings.Repeat("{ },  ", most/64) + "{}]", false},
		"lists in lists":                  {strings.Repeat("[", most/4), false},
	} {
		if err := bounded([]byte(c.text), most); (err == nil) != c.fits {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Millions of empty values once took gigabytes before anything looked at them.
func TestBodiesThatExpandAreRefusedBeforeTheyDo(t *testing.T) {
	d := openPlans(t, "1xrtx-4060")
	for name, c := range map[string]struct{ path, body string }{
		"pipelines of a plan": {"/api/plans/run", `{"plan":{"pipelines":[` + strings.Repeat("{},", maxPlanBody/4) + `{}]}}`},
		"steps of a plan":     {"/api/plans/run", `{"plan":{"pipelines":[{"name":"p","steps":[` + strings.Repeat("{},", maxPlanBody/4) + `{}]}]}}`},
		"runs to start":       {"/api/plans/run", `{"runs":[` + strings.Repeat(`"",`, maxPlanBody/4) + `""]}`},
		"libraries":           {"/api/plans", `{"text":"x","libraries":{` + strings.Repeat(`"a":{},`, maxPlanBody/8) + `"a":{}}}`},
		"parts of a lease":    {"/api/leases", `{"parts":[` + strings.Repeat("{},", maxBody/4) + `{}]}`},
		"scope of a lease":    {"/api/leases", `{"scope":[` + strings.Repeat("1,", maxBody/3) + `1]}`},
	} {
		w := d.asUser(t, c.path, c.body)
		p := decode[api.Problem](t, w)
		if w.Code != http.StatusBadRequest || p.Code != "malformed_body" || len(p.Fields) != 1 || !strings.Contains(p.Fields[0].Detail, "more values than") {
			t.Errorf("%s: %d %.300s", name, w.Code, w.Body)
		}
	}
	if err := (&bodies{registry: d.server.api.OpenAPI().Components.Schemas}).read([]byte(`{"parts":[`+strings.Repeat("{},", maxBody/4)+`{}]}`), schemaOf[api.LeaseRequest](d.server.api), new(wire.RequestBody)); err == nil || !strings.Contains(problemOf(err).Fields[0].Detail, "more values than") {
		t.Errorf("on a lease stream: %v", err)
	}
}

func TestAnswersListFewOfManyFaults(t *testing.T) {
	d := openPlans(t, "1xrtx-4060")
	var unknown strings.Builder
	for i := range 1000 {
		unknown.WriteString(`"` + strings.Repeat("x", i) + `":1,`)
	}
	for _, body := range []string{`{"parts":[` + strings.Repeat("{},", 1000) + `{}]}`, `{` + unknown.String() + `"gpus":1}`} {
		w := d.asUser(t, "/api/leases", body)
		p := decode[api.Problem](t, w)
		if w.Code != http.StatusUnprocessableEntity || len(p.Fields) != mostFaults || !strings.Contains(p.Detail, "These are 16 of ") || w.Body.Len() > 16<<10 {
			t.Errorf("%d, %d faults, %d bytes: %.300s", w.Code, len(p.Fields), w.Body.Len(), w.Body)
		}
	}
}
