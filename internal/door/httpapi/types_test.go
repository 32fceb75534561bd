package httpapi

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	gocmp "github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the types of the page and of the Python package anew")

// The types of the page and of the Python package are written from the schemas of
// /openapi.json, so that a field is described in one place.
func TestTypesOfClients(t *testing.T) {
	text := open(t, "").api.OpenAPI()
	k := kinds{schemas: text.Components.Schemas, comments: typeComments(t, "../../../api", "../../../gpu")}
	for path, want := range map[string]string{
		"../../../web/src/api/schemas.ts":  k.typescript(),
		"../../../python/berth/schemas.py": k.python(),
	} {
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, _ := os.ReadFile(path)
		if diff := gocmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s is not what the API is now; make docs writes it (-API +file):\n%.2000s", path, diff)
		}
	}
}

// kinds writes types of other languages.
type kinds struct {
	schemas  huma.Registry
	comments map[string]string // of the Go types, by their names
}

// member is a field of a schema, as Go declares it.
type member struct {
	name     string
	schema   *huma.Schema
	required bool
	known    bool // whether an absent value means the zero value, and not that nobody knows
	numbered bool // whether the keys of an object are numbers
}

// members returns the fields of a schema in the order of the Go type.
func (k kinds) members(name string) []member {
	schema := k.schemas.Map()[name]
	var found []member
	var look func(reflect.Type)
	look = func(t reflect.Type) {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		for i := range t.NumField() {
			field := t.Field(i)
			name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			if field.Anonymous && name == "" {
				look(field.Type)
				continue
			}
			if property := schema.Properties[name]; property != nil {
				found = append(found, member{
					name: name, schema: property, required: slices.Contains(schema.Required, name),
					known:    field.Type.Kind() != reflect.Pointer && !strings.Contains(options, "omitzero"),
					numbered: field.Type.Kind() == reflect.Map && field.Type.Key().Kind() == reflect.Int,
				})
			}
		}
	}
	look(k.schemas.TypeFromRef("#/components/schemas/" + name))
	return found
}

// said returns what a member means, in one line.
func (m member) said() string {
	said := m.schema.Description
	for _, value := range m.schema.Enum {
		if !strings.Contains(said, fmt.Sprint(value)) {
			return strings.TrimSpace(said + " One of " + alternatives(m.schema.Enum) + ".")
		}
	}
	return said
}

func alternatives(values []any) string {
	var words []string
	for _, value := range values {
		words = append(words, fmt.Sprint(value))
	}
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

func reference(s *huma.Schema) string { return strings.TrimPrefix(s.Ref, "#/components/schemas/") }

// typescript returns an interface for each schema.
func (k kinds) typescript() string {
	b := &strings.Builder{}
	b.WriteString("// Code generated from /openapi.json by make docs. DO NOT EDIT.\n")
	for _, name := range slices.Sorted(maps.Keys(k.schemas.Map())) {
		if k.schemas.TypeFromRef("#/components/schemas/"+name) == nil {
			continue
		}
		fmt.Fprintf(b, "\n%sexport interface %s {\n", prefixed("// ", k.comments[name]), name)
		for _, m := range k.members(name) {
			if said := m.said(); said != "" {
				fmt.Fprintf(b, "  /** %s */\n", said)
			}
			optional := "?"
			if m.required {
				optional = ""
			}
			fmt.Fprintf(b, "  %s%s: %s;\n", m.name, optional, typescriptOf(m.schema))
		}
		b.WriteString("}\n")
	}
	return b.String()
}

func typescriptOf(s *huma.Schema) string {
	kind := "unknown"
	switch {
	case s.Ref != "":
		kind = reference(s)
	case len(s.AnyOf) > 0:
		var of []string
		for _, one := range s.AnyOf {
			of = append(of, typescriptOf(one))
		}
		kind = strings.Join(of, " | ")
	case len(s.Enum) > 0:
		var of []string
		for _, value := range s.Enum {
			of = append(of, fmt.Sprintf("'%v'", value))
		}
		kind = strings.Join(of, " | ")
	case s.Type == huma.TypeArray: // the daemon writes an empty list, never null
		item := typescriptOf(s.Items)
		if strings.Contains(item, "|") {
			item = "(" + item + ")"
		}
		return item + "[]"
	case s.Type == huma.TypeObject:
		kind = "Record<string, unknown>"
		if of, ok := s.AdditionalProperties.(*huma.Schema); ok {
			kind = "Record<string, " + typescriptOf(of) + ">"
		}
	case s.Type == huma.TypeInteger || s.Type == huma.TypeNumber:
		kind = "number"
	case s.Type == huma.TypeString:
		kind = "string"
	case s.Type == huma.TypeBoolean:
		kind = "boolean"
	}
	if s.Nullable {
		kind += " | null"
	}
	return kind
}

// answers lists the schemas that the Python package gives out, with what is added to
// one by hand: its name there if that differs, and a class of berth/answer.py.
var answers = map[string]struct{ name, base string }{
	"Alert": {}, "Alerts": {base: "Several[Alert]"}, "Batch": {}, "Check": {}, "ConfigField": {name: "Setting"}, "Device": {},
	"DeviceAvailable": {name: "Available"}, "Drained": {}, "Ended": {}, "Energy": {}, "Explanation": {}, "GPUConfig": {}, "Job": {},
	"HolderUntil": {name: "InTheWay"}, "Lease": {name: "Allocation", base: "OfLease"}, "LeasePart": {name: "Part"}, "Leases": {base: "Several[Allocation]"},
	"Measured": {}, "Monitoring": {}, "Optimization": {base: "OfOptimization"}, "PastLease": {}, "Ready": {}, "Samples": {name: "History", base: "Listed[Sample]"},
	"Service": {name: "Program"}, "Status": {base: "OfStatus"}, "StatusAll": {base: "Several[Status]"}, "Strays": {base: "Several[Stray]"}, "TemperatureForecast": {name: "Forecast"}, "Throttle": {}, "Trend": {},
	"Waiting": {base: "OfUser"}, "Whoami": {},
}

// asWritten lists the schemas that stay objects of JSON in Python: what such an
// object leaves out means something else than a value of None.
var asWritten = []string{"DeviceConfig"}

// python returns a dataclass for each of answers and what they consist of, after
// those that it consists of itself.
func (k kinds) python() string {
	b := &strings.Builder{}
	b.WriteString(`"""The answers of the daemon, as /openapi.json describes them.

Code generated from /openapi.json by make docs. DO NOT EDIT.
"""

# ruff: noqa: E501
from __future__ import annotations

from typing import Any, Dict, List, Optional

from .answer import Answer, Listed, OfLease, OfOptimization, OfStatus, OfUser, Several, Time, _dict, _list, _new
`)
	var names []string
	written := map[string]bool{}
	var write func(string)
	write = func(name string) {
		if written[name] || slices.Contains(asWritten, name) {
			return
		}
		written[name] = true
		for _, m := range k.members(name) {
			for _, s := range []*huma.Schema{m.schema, m.schema.Items} {
				if s != nil && s.Ref != "" {
					write(reference(s))
				}
			}
			if of, ok := m.schema.AdditionalProperties.(*huma.Schema); ok && of.Ref != "" {
				write(reference(of))
			}
		}
		class := pythonName(name)
		names = append(names, class)
		bases := "Answer"
		if base := answers[name].base; base != "" {
			bases = base + ", Answer"
		}
		comment := strings.TrimSpace(strings.ReplaceAll(k.comments[name], "\n", "\n    "))
		if rest, ok := strings.CutPrefix(comment, name+" "); ok {
			comment = class + " " + rest
		}
		fmt.Fprintf(b, "\n\nclass %s(%s):\n    \"\"\"%s\"\"\"\n\n", class, bases, comment)
		for _, m := range k.members(name) {
			kind, zero := pythonOf(m)
			if m.numbered {
				kind = strings.Replace(kind, "str", "int", 1)
			}
			word := m.name
			if slices.Contains([]string{"for", "from", "try"}, word) {
				word += "_"
			}
			said := m.said()
			if said != "" {
				said = "  # " + said
			}
			fmt.Fprintf(b, "    %s: %s = %s%s\n", word, kind, zero, said)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		write(name)
	}
	fmt.Fprintf(b, "\n\n__all__ = [\n    \"%s\",\n]\n", strings.Join(names, "\",\n    \""))
	return b.String()
}

func pythonName(schema string) string { return cmp.Or(answers[schema].name, schema) }

// pythonOf returns the type of a member and the value of one that is absent.
func pythonOf(m member) (kind, zero string) {
	s := m.schema
	switch {
	case s.Ref != "" && m.required:
		return pythonName(reference(s)), "_new(" + pythonName(reference(s)) + ")"
	case pythonBare(s) == "Any":
		return "Any", "None"
	case s.Format == "date-time" || s.Ref != "":
		return "Optional[" + pythonBare(s) + "]", "None"
	case !m.known || s.Nullable && s.Type != huma.TypeArray:
		return "Optional[" + pythonBare(s) + "]", "None"
	}
	return pythonBare(s), map[string]string{
		huma.TypeArray: "_list()", huma.TypeObject: "_dict()", huma.TypeInteger: "0", huma.TypeNumber: "0.0", huma.TypeString: `""`, huma.TypeBoolean: "False",
	}[s.Type]
}

func pythonBare(s *huma.Schema) string {
	switch {
	case slices.Contains(asWritten, reference(s)):
		return "Dict[str, Any]"
	case s.Ref != "":
		return pythonName(reference(s))
	case s.Format == "date-time":
		return "Time"
	case s.Type == huma.TypeArray:
		return "List[" + pythonBare(s.Items) + "]"
	case s.Type == huma.TypeObject:
		if of, ok := s.AdditionalProperties.(*huma.Schema); ok {
			return "Dict[str, " + pythonBare(of) + "]"
		}
		return "Dict[str, Any]"
	}
	if kind := map[string]string{huma.TypeInteger: "int", huma.TypeNumber: "float", huma.TypeString: "str", huma.TypeBoolean: "bool"}[s.Type]; kind != "" {
		return kind
	}
	return "Any"
}

// typeComments returns the comments of the exported types of packages.
func typeComments(t *testing.T, folders ...string) map[string]string {
	found := map[string]string{}
	for _, folder := range folders {
		set := token.NewFileSet()
		paths, _ := filepath.Glob(filepath.Join(folder, "*.go"))
		var files []*ast.File
		for _, path := range paths {
			file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(path, "_test.go") {
				files = append(files, file)
			}
		}
		pkg, err := doc.NewFromFiles(set, files, folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range pkg.Types {
			found[kind.Name] = strings.TrimSpace(kind.Doc)
		}
	}
	return found
}

func prefixed(with, text string) string {
	if text == "" {
		return ""
	}
	return with + strings.ReplaceAll(text, "\n", "\n"+with) + "\n"
}
