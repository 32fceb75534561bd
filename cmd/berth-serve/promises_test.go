package main

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

var writePromises = flag.Bool("promises.write", false, "write what this release promises")

const (
	released = "testdata/release/"
	changes  = "../../CHANGELOG.md"
)

// TestPromises holds what a daemon says today against what the last release promised:
// docs/reference/compatibility.md. The changelog has to name what is broken.
func TestPromises(t *testing.T) {
	m := newMachine(t, 1)
	now := map[string][]byte{
		"version":       m.file("../../VERSION"),
		"openapi.json":  append(promised(t, m.get("/openapi.json")), '\n'),
		"metrics.list":  []byte(strings.Join(metricLines(m), "\n") + "\n"),
		"settings.list": []byte(strings.Join(settingLines(), "\n") + "\n"),
	}
	if *writePromises {
		for name, text := range now {
			if err := os.WriteFile(released+name, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	var broken []breach
	broken = append(broken, brokenRoutes(described(t, m.file(released+"openapi.json")), described(t, now["openapi.json"]))...)
	broken = append(broken, brokenLines(m.file(released+"metrics.list"), now["metrics.list"], sameMetric)...)
	broken = append(broken, brokenLines(m.file(released+"settings.list"), now["settings.list"], sameSetting)...)
	last := strings.TrimSpace(string(m.file(released + "version")))
	admitted := breaksSince(string(m.file(changes)), last)
	for _, b := range broken {
		if !strings.Contains(admitted, "`"+b.name+"`") {
			t.Errorf("%s: %s since %s. Users would notice: keep it, or name `%s` under ### Breaking in CHANGELOG.md, with what to do", b.name, b.how, last, b.name)
		}
	}
}

// promised returns the description of an API in a steady order, without the texts for
// people.
func promised(t *testing.T, text []byte) []byte {
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	var strip func(any)
	strip = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			maps.DeleteFunc(value, func(key string, v any) bool {
				_, isText := v.(string)
				return isText && (key == "description" || key == "summary") || key == "examples"
			})
			for _, inner := range value {
				strip(inner)
			}
		case []any:
			for _, inner := range value {
				strip(inner)
			}
		}
	}
	delete(all, "info")
	delete(all, "tags")
	strip(all)
	out, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// breach is a promise that is not kept: a name, and what became of it.
type breach struct{ name, how string }

// breaksSince returns what the sections of a changelog above that of a release list as
// broken.
func breaksSince(text, last string) string {
	above, _, _ := strings.Cut(text, "\n## "+last+"\n")
	var b strings.Builder
	here := false
	for line := range strings.Lines(above) {
		if strings.HasPrefix(line, "#") {
			here = strings.TrimSpace(line) == "### Breaking"
			continue
		}
		if here {
			b.WriteString(line)
		}
	}
	return b.String()
}

// brokenLines compares lists that have a name at the start of each line. A line is kept
// if one of today's lines of that name is the same to users.
func brokenLines(before, now []byte, same func(before, now []string) bool) (broken []breach) {
	today := map[string][][]string{}
	for line := range strings.Lines(string(now)) {
		words := strings.Fields(line)
		today[words[0]] = append(today[words[0]], words)
	}
	for line := range strings.Lines(string(before)) {
		words := strings.Fields(line)
		switch found := today[words[0]]; {
		case found == nil:
			broken = append(broken, breach{words[0], "it is gone"})
		case !slices.ContainsFunc(found, func(one []string) bool { return same(words, one) }):
			broken = append(broken, breach{words[0], "it was " + strings.Join(words[1:], " ") + ", and is another"})
		}
	}
	return broken
}

// sameMetric allows more labels.
func sameMetric(before, now []string) bool {
	if len(before) < 2 || len(now) < 2 {
		return len(before) <= len(now)
	}
	for _, label := range before[2:] {
		if !slices.Contains(now[2:], label) {
			return false
		}
	}
	return before[1] == now[1]
}

// sameSetting holds the default. What may be set, and by whom, is in the text for people.
func sameSetting(before, now []string) bool {
	return defaultOf(before) == defaultOf(now)
}

func defaultOf(words []string) string {
	_, rest, _ := strings.Cut(strings.Join(words, " "), "default=")
	value, _, _ := strings.Cut(rest, " range=")
	return value
}

// description is what the test reads of the description of an API.
type description struct {
	Paths map[string]map[string]struct {
		Parameters []struct {
			Name, In string
			Required bool
		}
		RequestBody struct {
			Content map[string]struct{ Schema shape }
		}
		Responses map[string]struct {
			Content map[string]struct{ Schema shape }
		}
	}
	Components struct{ Schemas map[string]shape }
}

// shape is a schema. Type is a word, or a list where null is allowed.
type shape struct {
	Ref        string `json:"$ref"`
	Type       any
	Format     string
	Items      *shape
	Properties map[string]shape
	Required   []string
	Enum       []any
}

func described(t *testing.T, text []byte) (d description) {
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// brokenRoutes compares two descriptions: routes, parameters, and the shapes of bodies and
// answers. A body may not need more than before, and an answer not have less.
func brokenRoutes(before, now description) (broken []breach) {
	asked, answered := map[string]bool{}, map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(before.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(before.Paths[path])) {
			was, name := before.Paths[path][method], strings.ToUpper(method)+" "+path
			is, found := now.Paths[path][method]
			if !found {
				broken = append(broken, breach{name, "the route is gone"})
				continue
			}
			for _, p := range was.Parameters {
				if !slices.ContainsFunc(is.Parameters, func(q struct {
					Name, In string
					Required bool
				}) bool {
					return q.Name == p.Name && q.In == p.In
				}) {
					broken = append(broken, breach{name + "?" + p.Name, "the parameter is gone"})
				}
			}
			for _, p := range is.Parameters {
				if p.Required && !slices.ContainsFunc(was.Parameters, func(q struct {
					Name, In string
					Required bool
				}) bool {
					return q.Name == p.Name && q.Required
				}) {
					broken = append(broken, breach{name + "?" + p.Name, "the parameter is needed now"})
				}
			}
			for kind, c := range was.RequestBody.Content {
				broken = append(broken, brokenShape(name, c.Schema, is.RequestBody.Content[kind].Schema, true, false)...)
				before.reach(c.Schema, asked)
			}
			for status, r := range was.Responses {
				for kind, c := range r.Content {
					broken = append(broken, brokenShape(name, c.Schema, is.Responses[status].Content[kind].Schema, false, true)...)
					before.reach(c.Schema, answered)
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before.Components.Schemas)) {
		if asked[name] || answered[name] {
			broken = append(broken, brokenShape(name, before.Components.Schemas[name], now.Components.Schemas[name], asked[name], answered[name])...)
		}
	}
	return broken
}

// reach marks the named shapes that a shape leads to.
func (d description) reach(s shape, seen map[string]bool) {
	if name := s.Ref[strings.LastIndex(s.Ref, "/")+1:]; name != "" && !seen[name] {
		seen[name] = true
		d.reach(d.Components.Schemas[name], seen)
	}
	if s.Items != nil {
		d.reach(*s.Items, seen)
	}
	for _, p := range s.Properties {
		d.reach(p, seen)
	}
}

func brokenShape(name string, was, is shape, asked, answered bool) (broken []breach) {
	if was.Ref != is.Ref || was.Format != is.Format || !gocmp.Equal(was.Type, is.Type) {
		return []breach{{name, "it has another type"}}
	}
	if asked {
		for _, value := range was.Enum {
			if !slices.Contains(is.Enum, value) && is.Enum != nil {
				broken = append(broken, breach{name, "a value that it took is gone"})
			}
		}
		for _, field := range is.Required {
			if !slices.Contains(was.Required, field) {
				broken = append(broken, breach{name + "." + field, "the field is needed now"})
			}
		}
	}
	if answered {
		for _, field := range was.Required {
			if _, there := is.Properties[field]; there && !slices.Contains(is.Required, field) {
				broken = append(broken, breach{name + "." + field, "the field is no longer in every answer"})
			}
		}
	}
	if was.Items != nil && is.Items != nil {
		broken = append(broken, brokenShape(name, *was.Items, *is.Items, asked, answered)...)
	}
	for _, field := range slices.Sorted(maps.Keys(was.Properties)) {
		today, there := is.Properties[field]
		if !there {
			broken = append(broken, breach{name + "." + field, "the field is gone"})
			continue
		}
		broken = append(broken, brokenShape(name+"."+field, was.Properties[field], today, asked, answered)...)
	}
	return broken
}

// What the comparison finds, change by change.
func TestBrokenPromises(t *testing.T) {
	const api = `{"paths": {"/a": {"post": {
		"parameters": [{"name": "gpu", "in": "query"}],
		"requestBody": {"content": {"json": {"schema": {"$ref": "#/components/schemas/Ask"}}}},
		"responses": {"200": {"content": {"json": {"schema": {"$ref": "#/components/schemas/Answer"}}}}}}}},
		"components": {"schemas": {
			"Ask": {"type": "object", "properties": {"memory": {"type": "integer"}, "mode": {"type": "string", "enum": ["a", "b"]}}, "required": ["memory"]},
			"Answer": {"type": "object", "properties": {"id": {"type": "string"}, "parts": {"type": "array", "items": {"$ref": "#/components/schemas/Part"}}}, "required": ["id"]},
			"Part": {"type": "object", "properties": {"gpu": {"type": "string"}}}}}}`
	for name, c := range map[string]struct{ from, to, want string }{
		"the same":                {"", "", ""},
		"a new field":             {`"properties": {"gpu":`, `"properties": {"slots": {"type": "integer"}, "gpu":`, ""},
		"a new value":             {`"enum": ["a", "b"]`, `"enum": ["a", "b", "c"]`, ""},
		"a route is gone":         {`"/a": {"post"`, `"/b": {"post"`, "POST /a"},
		"another method":          {`{"post"`, `{"put"`, "POST /a"},
		"a parameter is gone":     {`"name": "gpu"`, `"name": "device"`, "POST /a?gpu"},
		"a parameter is needed":   {`"in": "query"}`, `"in": "query"}, {"name": "x", "in": "query", "required": true}`, "POST /a?x"},
		"a field is needed":       {`"required": ["memory"]`, `"required": ["memory", "mode"]`, "Ask.mode"},
		"a value is gone":         {`"enum": ["a", "b"]`, `"enum": ["a"]`, "Ask.mode"},
		"a field is gone, inside": {`{"gpu": {"type": "string"}}`, `{"device": {"type": "string"}}`, "Part.gpu"},
		"another type":            {`"id": {"type": "string"}`, `"id": {"type": "integer"}`, "Answer.id"},
		"not in every answer":     {`"required": ["id"]`, `"required": []`, "Answer.id"},
	} {
		if !strings.Contains(api, c.from) {
			t.Fatalf("%s: nothing to change", name)
		}
		got := brokenRoutes(described(t, []byte(api)), described(t, []byte(strings.Replace(api, c.from, c.to, 1))))
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) == 0 || got[0].name != c.want) {
			t.Errorf("%s: %v, want %q", name, got, c.want)
		}
	}
	for name, c := range map[string]struct {
		before, now string
		same        func(before, now []string) bool
		want        int
	}{
		"a metric is gone":    {"a gauge x\nb gauge", "b gauge", sameMetric, 1},
		"a label is gone":     {"a gauge x y", "a gauge x", sameMetric, 1},
		"another type":        {"a gauge x", "a counter x", sameMetric, 1},
		"a label more":        {"a gauge x", "a gauge x y", sameMetric, 0},
		"another default":     {`a.b default="a c" range="x"`, `a.b default="a d" range="x"`, sameSetting, 1},
		"another range":       {`a.b default="a c" range="x"`, `a.b default="a c" range="y"`, sameSetting, 0},
		"a setting is gone":   {`a.b default="1" range=""`, `a.c default="1" range=""`, sameSetting, 1},
		"a device's, as such": {"gpu.devices.UUID.a", "gpu.devices.UUID.a", sameSetting, 0},
	} {
		if got := brokenLines([]byte(c.before), []byte(c.now), c.same); len(got) != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	const log = "## Unreleased\n### Breaking\n- `a` is gone\n### Added\n- `b`\n\n## 0.2.0\n### Breaking\n- `c`\n\n## 0.1.0\n### Breaking\n- `d`\n"
	if got := breaksSince(log, "0.1.0"); got != "- `a` is gone\n- `c`\n" {
		t.Errorf("%q", got)
	}
}
