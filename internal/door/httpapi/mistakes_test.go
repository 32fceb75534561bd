package httpapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
)

// TestMistakes sends plausible mistakes, and compares the answers with
// testdata/mistakes.golden: lines that begin with $ are requests, and below each stand its
// status, its code, its sentence and its fields. -update writes the answers.
//
// Lines that begin with + prepare something and must succeed. Every answer must name the
// next step, and none may be a sentence of a library.
func TestMistakes(t *testing.T) {
	const golden = "testdata/mistakes.golden"
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	d := open(t, "2")
	var got strings.Builder
	mistakes := 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "#"), line == "":
			fmt.Fprintln(&got, line)
		case strings.HasPrefix(line, "+ "), strings.HasPrefix(line, "$ "):
			parts := strings.SplitN(line[2:], " ", 3)
			body := strings.Join(parts[2:], "")
			answer := d.ask(parts[0], parts[1], body)
			fmt.Fprintln(&got, line)
			if line[0] == '+' {
				if answer.Code >= 300 {
					t.Errorf("%s: %d %s", line, answer.Code, answer.Body)
				}
				continue
			}
			mistakes++
			p := decode[api.Problem](t, answer)
			said := fmt.Sprintf("%d %s: %s\n", answer.Code, p.Code, p.Detail)
			for _, f := range p.Fields {
				said += "    " + f.Field + ": " + f.Detail + "\n"
			}
			got.WriteString(said)
			if library.MatchString(said) || !nextStep.MatchString(said) || answer.Code < 400 || answer.Code >= 500 {
				t.Errorf("%s: %s", line, said)
			}
		}
	}
	if mistakes < 32 {
		t.Errorf("there are %d mistakes", mistakes)
	}
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got.String() != string(text) {
		t.Errorf("the answers have changed; -update writes them, and git diff shows how:\n%s", got.String())
	}
}

var (
	// library finds sentences of the framework, of packages of Go and of the parsers.
	library = regexp.MustCompile(`validation failed|unexpected property|unknown query parameter|required property|invalid (?:integer|float|boolean|character)|unexpected end|json: |cannot unmarshal|strconv|to be one of`)

	// nextStep finds a next step.
	nextStep = regexp.MustCompile(`(?i)did you mean|\b(?:write|give|use|see|name|send|leave|ask|wait|look|lists?|takes|describes|must be)\b|as in`)
)

// misspelt returns a word with two letters in the middle exchanged, or without its last.
func misspelt(word string) string {
	for at := len(word) / 2; at < len(word); at++ {
		if at > 0 && word[at] != word[at-1] {
			return word[:at-1] + word[at:at+1] + word[at-1:at] + word[at+1:]
		}
	}
	return word[:len(word)-1]
}

// Every path, every parameter, every field and every value of a choice, if it is misspelt,
// is answered with the right one.
func TestMisspeltNames(t *testing.T) {
	d := open(t, "1")
	all := d.api.OpenAPI()
	walked := map[string]int{}
	check := func(kind, wrong, right, method, path, body string) {
		t.Helper()
		walked[kind]++
		if said := d.ask(method, path, body).Body.String(); !strings.Contains(strings.ToLower(said), "did you mean "+strings.ToLower(right)+"?") {
			t.Errorf("%s %s %s %s for %s: %s", kind, method, path+body, wrong, right, said)
		}
	}
	for path, item := range all.Paths {
		above, name := path[:strings.LastIndexByte(path, '/')+1], path[strings.LastIndexByte(path, '/')+1:]
		if _, any := all.Paths[above+"{id}"]; len(name) > 3 && !any && !strings.Contains(path, "{") {
			wrong := strings.TrimSuffix(path, name) + misspelt(name)
			check("path", wrong, path, http.MethodGet, wrong, "")
		}
		for method, op := range map[string]*huma.Operation{http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodPut: item.Put, http.MethodDelete: item.Delete} {
			if op == nil || strings.HasPrefix(path, "/api/v1/") || strings.HasPrefix(path, "/assets/") || path == "/api/leases/stream" {
				continue
			}
			to := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(path, "x-1")
			takes := takenBy(op, all.Components.Schemas)
			for _, p := range op.Parameters {
				if p.In != "query" || len(p.Name) < 3 {
					continue
				}
				check("parameter", misspelt(p.Name), p.Name, method, to+"?"+misspelt(p.Name)+"=1", "{}")
				for _, word := range choices(p.Schema, takes) {
					if path != "/api/events" {
						check("value", misspelt(word), word, method, to+"?"+p.Name+"="+misspelt(word), "{}")
					}
				}
			}
			if takes.body == nil || path == "/api/gpu/config" { // its fields are settings
				continue
			}
			whole := takes.whole(takes.body)
			for name, schema := range whole.Properties {
				if wrong := misspelt(name); len(name) > 3 && whole.AdditionalProperties == false {
					check("field", wrong, name, method, to, fmt.Sprintf("{%q: 1}", wrong))
				}
				form := "{%q: %q}"
				if takes.whole(schema).Items != nil {
					form = "{%q: [%q]}"
				}
				for _, word := range choices(schema, takes) {
					if path != "/api/plans/run" { // it looks for what to run first
						check("value", misspelt(word), word, method, to, fmt.Sprintf(form, name, misspelt(word)))
					}
				}
			}
		}
	}
	for _, code := range eventCodes() {
		check("event code", misspelt(code), code, http.MethodGet, "/api/events?follow=false&code="+misspelt(code), "")
	}
	for kind, least := range map[string]int{"path": 30, "parameter": 40, "field": 80, "value": 15, "event code": 50} {
		if walked[kind] < least {
			t.Errorf("only %d of kind %s were tried", walked[kind], kind)
		}
	}
}

// choices returns the words that a value may be.
func choices(s *huma.Schema, takes taken) (list []string) {
	s = takes.whole(s)
	if s != nil && s.Items != nil {
		s = takes.whole(s.Items)
	}
	if s == nil {
		return nil
	}
	for _, v := range s.Enum {
		if word, is := v.(string); is && len(word) > 3 {
			list = append(list, word)
		}
	}
	slices.Sort(list)
	return list
}

// A parameter that comes twice counts twice where a route takes several values, and is
// refused anywhere else: it never counts once.
func TestParametersGivenTwice(t *testing.T) {
	d := open(t, "1")
	lists, single := 0, 0
	for pattern, names := range d.lists {
		method, path, _ := strings.Cut(pattern, " ")
		to := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(path, "x-1")
		for name, how := range names {
			r, refused := d.unfold(httptest.NewRequest(method, to+"?"+name+"=a&"+name+"=b", nil), pattern)
			switch how {
			case one:
				single++
				if refused == nil || refused.Status != http.StatusUnprocessableEntity || !strings.Contains(refused.Detail, name+" is given 2 times") {
					t.Errorf("%s %s: %v", pattern, name, refused)
				}
			case joined:
				lists++
				if refused != nil || r.URL.Query().Get(name) != "a,b" {
					t.Errorf("%s %s: %v %v", pattern, name, r, refused)
				}
			case again:
				lists++
				if refused != nil || !slices.Equal(r.URL.Query()[name], []string{"a", "b"}) {
					t.Errorf("%s %s: %v %v", pattern, name, r, refused)
				}
			}
		}
	}
	if lists < 10 || single < 30 {
		t.Errorf("%d lists and %d single parameters", lists, single)
	}
	two := decode[api.Available](t, open(t, "3").ask(http.MethodGet, "/api/gpu/memory/available?gpu=0&gpu=2", ""))
	if len(two.GPUs) != 2 || two.GPUs[0].GPU != "SIM-h200-0" || two.GPUs[1].GPU != "SIM-h200-2" {
		t.Errorf("of two of three devices: %+v", two)
	}
}
