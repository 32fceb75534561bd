// Command mutants breaks packages on purpose, in one place at a time, to see whether their
// tests notice.
//
// A mutant is one small change: < becomes <=, a condition is negated, && becomes ||, + becomes -,
// a call is left out. It is killed if a test fails with it, and survives otherwise. A mutant
// that survives shows something that no test holds, or a change that changes nothing.
//
// The usual tools, such as gremlins, write one mutant into the sources, build, test, and begin
// again. A build of this module takes longer than most tests, and needs Go. This command writes
// all mutants into one copy of the sources. Each waits for its number in the variable
// BERTH_MUTANT, and with 0 the program is what it was. So one build is enough, the same
// binaries run on machines without Go, and whatever has the packages in it can look for the
// same mutants: test/world as well.
//
//	go test -coverprofile coverage ./internal/lease ./internal/job
//	go run ./test/mutants -coverage coverage -out dist/mutants ./internal/lease ./internal/job
//
// That writes overlay.json for go test -c -overlay, and mutants.tsv, which says what each
// number stands for. run.py runs what was built. Only what ran in the profile is changed:
// no test of a package can hold what it does not reach.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	coverage := flag.String("coverage", "coverage", "the profile of go test -coverprofile")
	out := flag.String("out", "dist/mutants", "the folder to write")
	number := flag.Int("number", 100, "the most mutants of one package")
	seed := flag.Uint64("seed", 1, "which of them are drawn, if there are more")
	flag.Parse()
	if err := run(*coverage, *out, *number, *seed, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(coverage, out string, number int, seed uint64, patterns []string) error {
	covered, err := readProfile(coverage)
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	packages, err := load(files, patterns)
	if err != nil {
		return err
	}
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(out, "src"), 0o777); err != nil {
		return err
	}
	replaced := map[string]string{}
	write := func(source string, text []byte) error {
		// Not .go: no other command may take it for a package.
		replaced[source] = filepath.Join(out, "src", strings.ReplaceAll(strings.TrimPrefix(source, here+"/"), "/", "-")+".txt")
		return os.WriteFile(replaced[source], text, 0o666)
	}
	table, id := []byte("mutant\tpackage\tplace\tkind\twas\tis\n"), 0
	for _, p := range packages {
		folder := strings.TrimPrefix(p.dir, here+"/")
		points := slices.DeleteFunc(p.points(), func(m point) bool {
			at := files.Position(m.at)
			return !covered.has(path.Join(p.path, filepath.Base(at.Filename)), at.Line, at.Column)
		})
		drawn := draw(points, number, seed)
		fmt.Printf("%s: %d of %d places that its tests reach, seed %d\n", folder, len(drawn), len(points), seed)
		changed := map[*source]*edits{}
		for _, m := range drawn {
			id++
			if changed[m.in] == nil {
				changed[m.in] = &edits{}
			}
			m.change(changed[m.in], id)
			place := fmt.Sprintf("%s/%s:%d", folder, filepath.Base(m.in.name), files.Position(m.at).Line)
			table = fmt.Appendf(table, "%d\t%s\t%s\t%s\t%s\t%s\n", id, folder, place, m.kind, m.was, m.is)
		}
		for in, e := range changed {
			if err := write(in.name, e.apply(in)); err != nil {
				return err
			}
		}
		if err := write(filepath.Join(p.dir, "mutant.go"), helpers(p.name)); err != nil {
			return err
		}
	}
	overlay, err := json.MarshalIndent(map[string]any{"Replace": replaced}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "overlay.json"), overlay, 0o666); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "mutants.tsv"), table, 0o666)
}

// draw returns number of the points, or all, in the order in which they stand.
func draw(points []point, number int, seed uint64) []point {
	drawn := rand.New(rand.NewPCG(seed, 0)).Perm(len(points))[:min(number, len(points))]
	slices.Sort(drawn)
	some := make([]point, len(drawn))
	for i, n := range drawn {
		some[i] = points[n]
	}
	return some
}

// profile holds the blocks of statements that ran, by file: the line and the column of
// their beginning, and those of their end.
type profile map[string][][4]int

func readProfile(name string) (profile, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	ran := profile{}
	for line := range strings.Lines(string(text)) {
		file, rest, _ := strings.Cut(line, ":")
		if file == "mode" {
			continue
		}
		var b [4]int
		var statements, count int
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &b[0], &b[1], &b[2], &b[3], &statements, &count); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", name, line, err)
		}
		if count > 0 {
			ran[file] = append(ran[file], b)
		}
	}
	return ran, nil
}

func (p profile) has(file string, at ...int) bool {
	return slices.ContainsFunc(p[file], func(b [4]int) bool {
		return slices.Compare(b[:2], at) <= 0 && slices.Compare(at, b[2:]) < 0
	})
}

// pkg is a package whose types are known.
type pkg struct {
	path, name, dir string
	sources         []*source
	info            *types.Info
}

type source struct {
	*ast.File
	name string
	text []byte
}

// load parses packages without their tests and finds the types. What they import comes
// compiled, from the cache.
func load(files *token.FileSet, patterns []string) ([]*pkg, error) {
	list := exec.Command("go", append([]string{"list", "-trimpath", "-export", "-deps",
		"-f", "{{.ImportPath}}\t{{.Export}}\t{{.Dir}}\t{{.DepOnly}}\t{{range .GoFiles}}{{.}} {{end}}"}, patterns...)...)
	list.Stderr = os.Stderr
	listed, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	exports := map[string]string{}
	var packages []*pkg
	for line := range strings.Lines(string(listed)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		exports[f[0]] = f[1]
		if f[3] == "true" {
			continue
		}
		p := &pkg{path: f[0], dir: f[2], info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}}
		for _, base := range strings.Fields(f[4]) {
			s := &source{name: filepath.Join(p.dir, base)}
			if s.text, err = os.ReadFile(s.name); err != nil {
				return nil, err
			}
			if s.File, err = parser.ParseFile(files, s.name, s.text, parser.SkipObjectResolution); err != nil {
				return nil, err
			}
			p.name = s.File.Name.Name
			p.sources = append(p.sources, s)
		}
		packages = append(packages, p)
	}
	config := types.Config{Importer: importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	for _, p := range packages {
		var parsed []*ast.File
		for _, s := range p.sources {
			parsed = append(parsed, s.File)
		}
		if _, err := config.Check(p.path, files, parsed, p.info); err != nil {
			return nil, err
		}
	}
	return packages, nil
}
