package httpapi

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/door/problems"
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

// A body is documented as what it is, although it is read raw.
func TestRawBodiesAreDocumented(t *testing.T) {
	d := open(t, "")
	for route, want := range map[string]string{"PUT /api/gpu/config": "GPUChange", "POST /api/plans": "PlanRequest", "POST /api/plans/run": "PlanRun"} {
		schema := operation(d.api.OpenAPI(), route).RequestBody.Content["application/json"].Schema
		if schema.Ref != "#/components/schemas/"+want {
			t.Errorf("%s is documented as %+v", route, schema)
		}
	}
}

// Every route declares who may use it and how it refuses, as its verb and the
// rules of access say.
func TestOpenAPIDeclaresAccess(t *testing.T) {
	type operation struct {
		ID          string `json:"operationId"`
		Tags        []string
		Role        string `json:"x-role"`
		Others      string `json:"x-role-others"`
		Description string
		Security    []map[string][]string
		Responses   map[string]struct {
			Ref string `json:"$ref"`
		}
	}
	d := open(t, "")
	doc := decode[struct {
		Info    struct{ License struct{ Identifier string } }
		Servers []struct{ URL string }
		Tags    []struct{ Name, Description string }
		Paths   map[string]map[string]operation

		Components struct {
			Responses       map[string]struct{ Content map[string]any }
			SecuritySchemes map[string]struct{ Type, Scheme string }
		}
	}](t, d.ask("GET", "/openapi.json", ""))
	if doc.Info.License.Identifier != "Apache-2.0" || len(doc.Servers) == 0 {
		t.Errorf("licence %q, servers %v", doc.Info.License, doc.Servers)
	}
	if s := doc.Components.SecuritySchemes; s["token"].Scheme != "bearer" || s["certificate"].Type != "mutualTLS" || s["session"].Type != "apiKey" {
		t.Errorf("security schemes %+v", s)
	}
	tags, ids := map[string]bool{}, map[string]bool{}
	for _, tag := range doc.Tags {
		tags[tag.Name] = tag.Description != ""
	}
	for _, route := range d.routes {
		method, path, _ := strings.Cut(route, " ")
		op := doc.Paths[path][strings.ToLower(method)]
		if op.ID == "" || ids[op.ID] {
			t.Errorf("%s: the operation id %q is empty, or another route has it", route, op.ID)
		}
		ids[op.ID] = true
		if len(op.Tags) != 1 || !tags[op.Tags[0]] {
			t.Errorf("%s: tags %v, want one with a description", route, op.Tags)
		}
		own, others := verbs[route].Least()
		if op.Role != own.String() || (op.Others != "") != (others > own) || others > own && op.Others != others.String() {
			t.Errorf("%s: roles %q and %q, want %v and %v", route, op.Role, op.Others, own, others)
		}
		if own > access.Stranger && !strings.Contains(op.Description, "role "+own.String()) {
			t.Errorf("%s: %q does not say that it needs the role %v", route, op.Description, own)
		}
		want := []map[string][]string{}
		if own > access.Stranger {
			want = []map[string][]string{{"token": {op.Role}}, {"certificate": {op.Role}}, {"session": {op.Role}}, {}}
		}
		if diff := cmp.Diff(want, op.Security); diff != "" {
			t.Errorf("%s: security: %s", route, diff)
		}
		refuses := []string{"403", "default"}
		if own > access.Stranger {
			refuses = append(refuses, "401", "429")
		}
		for _, status := range refuses {
			name := strings.TrimPrefix(op.Responses[status].Ref, "#/components/responses/")
			if doc.Components.Responses[name].Content[problems.MediaType] == nil {
				t.Errorf("%s: the answer %s is %q, and no problem", route, status, name)
			}
		}
	}
	for _, c := range []struct {
		route    string
		statuses string
	}{
		{"get /api/leases/{id}", "401 403 404 409 422 429"},
		{"post /api/leases", "400 401 403 404 408 409 413 415 422 429"},
		{"get /api/gpu/status", "401 403 404 422 429"},
		{"get /api/gpu/status/all", "401 403 422 429"},
		{"post /api/leases/stream", "401 403 426 429"},
		{"delete /api/tokens/{name}", "401 403 404 409 422 429"},
		{"get /healthz", "403"},
	} {
		method, path, _ := strings.Cut(c.route, " ")
		var got []string
		for status := range doc.Paths[path][method].Responses {
			if strings.HasPrefix(status, "4") {
				got = append(got, status)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(strings.Fields(c.statuses), got); diff != "" {
			t.Errorf("%s: %s", c.route, diff)
		}
	}
}

// No parameter can be null, and neither can the command of a job, which is required.
func TestOpenAPIHasNoNullWhereNoneCanBe(t *testing.T) {
	d := open(t, "")
	text := d.ask("GET", "/openapi.json", "").Body.String()
	doc := decode[struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Name   string
				Schema struct{ Type any }
			}
		}
		Components struct {
			Schemas map[string]struct {
				Required   []string
				Properties map[string]struct{ Type any }
			}
		}
	}](t, d.ask("GET", "/openapi.json", ""))
	lists := 0
	for path, methods := range doc.Paths {
		for method, op := range methods {
			for _, p := range op.Parameters {
				if p.Schema.Type == "array" {
					lists++
				}
				if types, several := p.Schema.Type.([]any); several {
					t.Errorf("%s %s: the parameter %s is %v", method, path, p.Name, types)
				}
			}
		}
	}
	if lists < 9 {
		t.Errorf("only %d parameters are lists in %.200s", lists, text)
	}
	if job := doc.Components.Schemas["JobRequest"]; job.Properties["command"].Type != "array" || !slices.Contains(job.Required, "command") {
		t.Errorf("the command of a job is %v, and required are %q", job.Properties["command"].Type, job.Required)
	}
}

// What the page asks for all the time, and what is large, is compressed for those who take
// that, and is the same.
func TestLargeAnswersAreCompressed(t *testing.T) {
	bare, full := open(t, ""), open(t, "8xh200")
	for _, test := range []struct {
		of    *door
		path  string
		large bool
	}{
		{full, "/api/gpu/status/all?curves=60", true}, {full, "/openapi.json", true}, {bare, "/api/gpu/status/all", false},
	} {
		plain, packed := test.of.ask("GET", test.path, ""), test.of.ask("GET", test.path, "", "Accept-Encoding", "gzip")
		if plain.Code != http.StatusOK || packed.Code != http.StatusOK || plain.Header().Get("Content-Encoding") != "" || packed.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: %d %v, %d %v", test.path, plain.Code, plain.Header(), packed.Code, packed.Header())
		}
		if got := packed.Header().Get("Content-Encoding"); (got == "gzip") != test.large {
			t.Errorf("%s: an answer of %d bytes is sent as %q", test.path, plain.Body.Len(), got)
		}
		if !test.large {
			continue
		}
		unpacked, err := gzip.NewReader(packed.Body)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(unpacked)
		if err != nil || !json.Valid(got) || test.path == "/openapi.json" && !bytes.Equal(got, plain.Body.Bytes()) {
			t.Errorf("%s: %v, %d bytes of %d", test.path, err, len(got), plain.Body.Len())
		}
	}
}

// Every component is used, and every reference leads somewhere.
func TestOpenAPIHasNoLooseEnds(t *testing.T) {
	d := open(t, "")
	text := d.ask("GET", "/openapi.json", "").Body.String()
	doc := decode[struct {
		Components map[string]map[string]any
	}](t, d.ask("GET", "/openapi.json", ""))
	for kind, components := range doc.Components {
		for name := range components {
			if kind != "securitySchemes" && !strings.Contains(text, `"#/components/`+kind+"/"+name+`"`) {
				t.Errorf("nothing refers to the component %s/%s", kind, name)
			}
		}
	}
	for _, reference := range regexp.MustCompile(`"#/components/(\w+)/(\w+)"`).FindAllStringSubmatch(text, -1) {
		if doc.Components[reference[1]][reference[2]] == nil {
			t.Errorf("there is no %s", reference[0])
		}
	}
}

// Where openapi.write is given, the text goes to that file, for make openapi-lint.
var writeTo = flag.String("openapi.write", "", "write the OpenAPI text to this file")

func TestWriteOpenAPI(t *testing.T) {
	if *writeTo == "" {
		t.Skip("make openapi-lint runs it")
	}
	if err := os.WriteFile(*writeTo, open(t, "").ask("GET", "/openapi.json", "").Body.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
