package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
)

// unlimited lists what a request body leaves open: texts without a longest
// length, lists without a largest number, numbers without a largest value. The
// numbers of requests for leases are checked by the lease package.
func unlimited(r huma.Registry, at string, s *huma.Schema, seen map[*huma.Schema]bool) (open []string) {
	if s.Ref != "" {
		s = r.SchemaFromRef(s.Ref)
	}
	if seen[s] {
		return nil
	}
	seen[s] = true
	switch s.Type {
	case huma.TypeString:
		if s.MaxLength == nil && len(s.Enum) == 0 && s.Format != "date-time" {
			open = append(open, at+" has no maxLength")
		}
	case huma.TypeArray:
		if s.MaxItems == nil {
			open = append(open, at+" has no maxItems")
		}
		if s.Items.Type != huma.TypeNumber && s.Items.Type != huma.TypeInteger { // bounded by what the list is used for
			open = append(open, unlimited(r, at+"[]", s.Items, seen)...)
		}
	case huma.TypeNumber, huma.TypeInteger:
		if s.Maximum == nil && !strings.Contains(at, "/leases") && !strings.Contains(at, "/allocate") && !strings.Contains(at, "/api/jobs: body.lease.") { // the ledger has their limits
			open = append(open, at+" has no maximum")
		}
	case huma.TypeObject:
		for name, property := range s.Properties {
			open = append(open, unlimited(r, at+"."+name, property, seen)...)
		}
		if more, ok := s.AdditionalProperties.(*huma.Schema); ok {
			open = append(open, unlimited(r, at+".*", more, seen)...)
			if s.MaxProperties == nil {
				open = append(open, at+" has no maxProperties")
			}
		}
	}
	return open
}

// What a user sends has a limit, wherever it ends up: in memory, in an event, in
// the journal.
func TestRequestsAreLimited(t *testing.T) {
	d := open(t, "")
	checked := 0
	for path, item := range d.api.OpenAPI().Paths {
		switch {
		case strings.HasPrefix(path, "/api/plans"): // a document with limits of its own
			continue
		case path == "/api/gpu/config": // for administrators, and checked setting by setting
			continue
		}
		for _, op := range []*huma.Operation{item.Put, item.Post, item.Delete, item.Get} {
			if op == nil {
				continue
			}
			for _, p := range op.Parameters {
				if s := p.Schema; s.Type == huma.TypeString && s.MaxLength == nil && len(s.Enum) == 0 && s.Format == "" {
					t.Errorf("%s %s: the parameter %s has no maxLength", op.Method, path, p.Name)
				}
			}
			if op.RequestBody == nil || op.RequestBody.Content["application/json"] == nil {
				continue
			}
			checked++
			schema := op.RequestBody.Content["application/json"].Schema
			for _, what := range unlimited(d.api.OpenAPI().Components.Schemas, op.Method+" "+path+": body", schema, map[*huma.Schema]bool{}) {
				t.Error(what)
			}
		}
	}
	if checked < 8 {
		t.Errorf("only %d bodies were looked at", checked)
	}
}

func TestMeasurementsAreCleaned(t *testing.T) {
	d := open(t, "1")
	if w := d.ask("POST", "/api/measurements", `{"name":"a\u001b[2Jb","step":"x\ny","memory_mb":1,"seconds":1}`); w.Code != http.StatusNoContent {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	all := decode[api.Measurements](t, d.ask("GET", "/api/measurements", ""))
	if len(all.Measurements) != 1 || all.Measurements[0].Name != "a\uFFFD[2Jb" || all.Measurements[0].Step != "x y" {
		t.Errorf("it is kept as %+v", all)
	}
	for _, body := range []string{
		`{"name":"` + strings.Repeat("n", 129) + `","memory_mb":1,"seconds":1}`,
		`{"name":"n","step":"` + strings.Repeat("s", 129) + `","memory_mb":1,"seconds":1}`,
		`{"name":"n","memory_mb":1,"seconds":1e18}`,
	} {
		if w := d.ask("POST", "/api/measurements", body); w.Code != http.StatusUnprocessableEntity {
			t.Errorf("%.60s: %d %s", body, w.Code, w.Body)
		}
	}
}

func TestBatchReportsAreLimited(t *testing.T) {
	d := open(t, "1")
	const rest = `"stage":"running","total_exact":true,"done_before":0,"failed":0,"marked":0,"retries":0,"restarts":0,"workers":1,"gpus":[]`
	for field, value := range map[string]string{
		"output":  `"` + strings.Repeat("o", 4097) + `"`,
		"command": `"` + strings.Repeat("c", 1025) + `"`,
		"error":   `"` + strings.Repeat("e", 1025) + `"`,
		"done":    `9000000000000000000`,
		"total":   `9000000000000000000`,
	} {
		body := `{"id":"b","` + field + `":` + value + `,` + rest
		if field != "output" {
			body += `,"output":"o"`
		}
		if field != "done" {
			body += `,"done":1`
		}
		w := d.ask("PUT", "/api/batches/b", body+"}")
		if w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), `"field":"`+field+`"`) {
			t.Errorf("%s of %.20s…: %d %s", field, value, w.Code, w.Body)
		}
	}
	for i := range 64 {
		if w := d.ask("PUT", "/api/batches/"+strings.Repeat("x", i+1), `{"id":"`+strings.Repeat("x", i+1)+`","output":"o","done":1,`+rest+`}`); w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if w := d.ask("PUT", "/api/batches/more", `{"id":"more","output":"o","done":1,`+rest+`}`); w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), "too_many_batches") {
		t.Errorf("one more than a user may have: %d %s", w.Code, w.Body)
	}
}
