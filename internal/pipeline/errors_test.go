package pipeline

import (
	"encoding/json"
	"errors"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "rewrite what testdata expects")

// scenario is a file of testdata: a pipeline file, the world if it gets that
// far, and what is expected.
type scenario struct {
	path    string
	archive *txtar.Archive
}

func scenarios(t *testing.T, folder string) []scenario {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", folder, "*.txtar"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenarios in %s: %v", folder, err)
	}
	var all []scenario
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, scenario{path, archive})
	}
	return all
}

func (s *scenario) name() string { return strings.TrimSuffix(filepath.Base(s.path), ".txtar") }

// file is the pipeline file: the first of the archive.
func (s *scenario) file() (string, []byte) {
	return s.archive.Files[0].Name, s.archive.Files[0].Data
}

func (s *scenario) part(name string) (*txtar.File, bool) {
	for i := range s.archive.Files {
		if s.archive.Files[i].Name == name {
			return &s.archive.Files[i], true
		}
	}
	return nil, false
}

func (s *scenario) world(t *testing.T) (World, bool) {
	t.Helper()
	part, ok := s.part("world.json")
	if !ok {
		return World{}, false
	}
	var w World
	decoder := json.NewDecoder(strings.NewReader(string(part.Data)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&w); err != nil {
		t.Fatalf("world.json: %v", err)
	}
	return w, true
}

// expect compares a text with a part of the scenario, or writes it there.
func (s *scenario) expect(t *testing.T, name, got string) {
	t.Helper()
	part, ok := s.part(name)
	if !ok {
		t.Fatalf("%s has no part %s", s.path, name)
	}
	if *update {
		part.Data = []byte(got)
		if err := os.WriteFile(s.path, txtar.Format(s.archive), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(part.Data), got); diff != "" {
		t.Errorf("%s (run with -update if it is right now):\n%s", name, diff)
	}
}

func TestErrorsAsUsersSeeThem(t *testing.T) {
	covered := map[Code]bool{}
	for _, s := range scenarios(t, "errors") {
		t.Run(s.name(), func(t *testing.T) {
			name, text := s.file()
			file, err := Parse(name, text)
			if world, ok := s.world(t); ok {
				if err != nil {
					t.Fatalf("it does not even parse: %v", err)
				}
				_, err = Compile(file, world)
			}
			var all *Error
			if !errors.As(err, &all) {
				t.Fatalf("err = %v, want an *Error", err)
			}
			for _, p := range all.Problems {
				covered[p.Code] = true
				if p.Reason == "" || p.Remedy == "" {
					t.Errorf("a problem without reason or remedy: %+v", p)
				}
			}
			s.expect(t, "error", err.Error()+"\n")
		})
	}
	for _, code := range codes(t) {
		if !covered[code] {
			t.Errorf("no scenario shows a problem %s", code)
		}
	}
}

// codes reads the constants of type Code from the source, so that a new one
// without a scenario does not go unnoticed.
func codes(t *testing.T) []Code {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "problem.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []Code
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Code" {
				value, _ := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
				all = append(all, Code(value))
			}
		}
		return true
	})
	if len(all) < 10 {
		t.Fatalf("found only %v", all)
	}
	return all
}
