package pipeline

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/berth-gpu/berth/internal/text/term"
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
	return s.archive.Files[0].Name, s.long(s.archive.Files[0].Data)
}

// long returns a text with what it means: where the archive begins with LONG and a
// number, that word stands for so many letters.
func (s *scenario) long(text []byte) []byte {
	var letters int
	if n, _ := fmt.Sscanf(string(s.archive.Comment), "LONG %d", &letters); n == 1 {
		text = bytes.ReplaceAll(text, []byte("LONG"), bytes.Repeat([]byte("x"), letters))
	}
	return text
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
	w := World{Context: 600}
	decoder := json.NewDecoder(bytes.NewReader(s.long(part.Data)))
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
	var reasons []string
	for _, s := range scenarios(t, "errors") {
		t.Run(s.name(), func(t *testing.T) {
			name, text := s.file()
			file, err := Parse(name, text)
			if world, ok := s.world(t); ok {
				_, err = Compile(file, world)
			}
			var all *Error
			if !errors.As(err, &all) {
				t.Fatalf("err = %v, want an *Error", err)
			}
			for _, p := range all.Problems {
				covered[p.Code] = true
				reasons = append(reasons, p.Reason)
				if p.Reason == "" || p.Remedy == "" {
					t.Errorf("a problem without reason or remedy: %+v", p)
				}
			}
			for line := range strings.Lines(err.Error()) {
				if term.Columns(strings.TrimRight(line, "\n")) > lineWidth && len(strings.Fields(line)) > 2 {
					t.Errorf("a line is too wide:\n%s", line)
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
	for _, message := range messages(t) {
		if !slices.ContainsFunc(reasons, message.MatchString) {
			t.Errorf("no scenario shows the message %s", message)
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

// messages reads from the source what problems say: every text that is given as
// a reason, or is an error that becomes one.
func messages(t *testing.T) []*regexp.Regexp {
	t.Helper()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var all []*regexp.Regexp
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range spoken(file) {
			all = append(all, pattern(text))
		}
	}
	if len(all) < 40 {
		t.Fatalf("found only %v", all)
	}
	return all
}

// spoken is the literal texts of reasons in a file. A reason is what add is
// called with after the code, a field of that name, or a variable called so.
func spoken(file *ast.File) []string {
	var all []string
	literals := func(in ast.Expr) {
		ast.Inspect(in, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, _ := strconv.Unquote(lit.Value); strings.TrimSpace(text) != "" {
					all = append(all, text)
				}
			}
			return true
		})
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			called, _ := n.Fun.(*ast.SelectorExpr)
			switch {
			case called == nil:
			case called.Sel.Name == "Errorf":
				literals(n.Args[0])
			case called.Sel.Name == "add" && len(n.Args) >= 4:
				literals(n.Args[slices.IndexFunc(n.Args, isCode)+1])
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Reason" {
				literals(n.Value)
			}
		case *ast.AssignStmt:
			if to, ok := n.Lhs[0].(*ast.Ident); ok && to.Name == "reason" {
				literals(n.Rhs[0])
			}
		}
		return true
	})
	return all
}

// isCode reports whether an argument is one of the codes, by its capital.
func isCode(e ast.Expr) bool {
	name, ok := e.(*ast.Ident)
	return ok && ast.IsExported(name.Name)
}

var verb = regexp.MustCompile(`%[.0-9]*[a-z]`)

// pattern is what a format looks like with something in the place of its verbs.
func pattern(format string) *regexp.Regexp {
	return regexp.MustCompile("(?s)" + verb.ReplaceAllString(regexp.QuoteMeta(format), ".*"))
}
