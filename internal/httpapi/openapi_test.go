package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
)

// shape is what an operation is documented to answer with.
func shape(t *testing.T, d *door, method, path string) *huma.Schema {
	t.Helper()
	item := d.api.OpenAPI().Paths[path]
	op := item.Get
	if method == http.MethodPost {
		op = item.Post
	}
	for _, code := range []string{"200", "201"} {
		if r := op.Responses[code]; r != nil && r.Content["application/json"] != nil {
			return r.Content["application/json"].Schema
		}
	}
	return nil
}

// fits holds an answer against its documented shape.
func fits(t *testing.T, d *door, path string, schema *huma.Schema, body []byte) {
	t.Helper()
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	result := &huma.ValidateResult{}
	huma.Validate(d.api.OpenAPI().Components.Schemas, schema, huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, value, result)
	for _, err := range result.Errors {
		t.Errorf("%s does not answer as documented: %v\n%.400s", path, err, body)
	}
}

// What every path without parameters answers has the shape that
// /openapi.json gives it.
func TestAnswersHaveTheirDocumentedShape(t *testing.T) {
	d := open(t, "2xrtx-4060")
	if w := d.ask("POST", "/api/gpu/memory/allocate", `{"allocation_id":"held","memory_mb":1024}`); w.Code != http.StatusCreated {
		t.Fatalf("allocate: %d %s", w.Code, w.Body)
	} else {
		fits(t, d, "allocate", shape(t, d, "POST", "/api/gpu/memory/allocate"), w.Body.Bytes())
	}
	checked := 0
	for path, item := range d.api.OpenAPI().Paths {
		if item.Get == nil || strings.Contains(path, "{") || path == "/openapi.json" {
			continue
		}
		schema := shape(t, d, "GET", path)
		if schema == nil {
			continue // a page, a stream
		}
		w := d.ask("GET", path, "")
		if w.Code != http.StatusOK {
			t.Errorf("GET %s: %d %s", path, w.Code, w.Body)
			continue
		}
		fits(t, d, path, schema, w.Body.Bytes())
		checked++
	}
	if checked < 10 {
		t.Errorf("only %d paths were looked at", checked)
	}
}

// The body of a change is documented as what it is, although it is read raw.
func TestConfigChangeIsDocumented(t *testing.T) {
	d := open(t, "")
	schema := d.api.OpenAPI().Paths["/api/gpu/config"].Put.RequestBody.Content["application/json"].Schema
	if schema.Ref != "#/components/schemas/GPUChange" {
		t.Errorf("it is documented as %+v", schema)
	}
}
