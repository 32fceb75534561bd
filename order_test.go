package berth_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/berth-gpu/berth"

// subjects is the architecture: the folders of internal/, in groups. A package
// imports from its own subject and from the groups above it. The README and
// docs/develop/architecture.md show this picture; a test compares them.
const subjects = `
when      times that are stored and compared, and errors that pass

text      what people read and write: words, tables, documents, charts
file      what survives a crash: the journal, state files, logs
access    who may do what: roles, verbs, users

config    what can be set, its default, and what is refused
process   programs of the machine: identity, kinship, launch, control groups

device    GPUs: NVIDIA, AMD, Intel, simulated ones, and checks that prove them

health    how a device is and will be: states, heat, drains, the monitor

lease     who has what: the book, the ledger, placement, quotas, audit

enforce   what berth does about it: watchdog, throttle, pace, park, reclaim
history   what happened: events, hooks, the past, alerts, energy, reports

batch     records and pipelines over many GPUs
job       commands that berth runs for users: what becomes of them, and who keeps them

desk      what a request and a sample mean: here the subjects above meet

door      the ways in for programs: HTTP, the lease stream, metrics, the page

daemon    the wiring of all of the above

cli       the ways in for people: commands, tables, top
`

// mostLinks is the limit of the longest chain of imports, in packages.
const mostLinks = 10

// pure marks a package that decides on values alone.
const pure = "Pure: no clock, no I/O."

// impure lists what a pure package must not import: a decision that reads a
// file or asks the time cannot be replayed.
var impure = []string{"os", "os/exec", "net", "net/http", "syscall", "io/ioutil", "log", "log/slog", "sync", "context", "embed"}

// worldly lists what the keepers of leases and of health must not import: they
// reach the world through seams.
var worldly = []string{"os/exec", "net/http", "syscall", "golang.org/x/sys/unix"}

// groups returns the number of each subject's group, from the top of the picture.
func groups() map[string]int {
	numbers := map[string]int{}
	for n, group := range strings.Split(strings.Trim(subjects, "\n"), "\n\n") {
		for line := range strings.Lines(group) {
			numbers[strings.Fields(line)[0]] = n
		}
	}
	return numbers
}

// subject returns the subject of a folder; empty for one outside of internal/.
func subject(dir string) string {
	inside, ours := strings.CutPrefix(dir, "internal/")
	if !ours {
		return ""
	}
	name, _, _ := strings.Cut(inside, "/")
	return name
}

// forTests reports whether a folder holds no part of the product: programs that
// measure it, and suites and tools for tests. They may use it, and only tests use them.
func forTests(dir string) bool {
	return strings.HasPrefix(dir, "test/") || strings.HasSuffix(dir, "test")
}

func TestOrder(t *testing.T) {
	packages, numbers := parsePackages(t), groups()
	for name := range numbers {
		if info, err := os.Stat("internal/" + name); err != nil || !info.IsDir() {
			t.Errorf("%s stands in the picture, and there is no such folder", name)
		}
	}
	for dir, files := range packages {
		if _, known := numbers[subject(dir)]; subject(dir) != "" && !known {
			t.Errorf("%s belongs to no subject: move it below one of those in the picture", dir)
		}
		if forTests(dir) {
			continue
		}
		for name, file := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			for _, path := range imports(file) {
				if why := forbidden(dir, path, packages, numbers); why != "" {
					t.Errorf("%s imports %s: %s", name, path, why)
				}
			}
			if isPure(packages[dir]) {
				forbidTime(t, name, file)
			}
		}
	}
}

// forbidden says why a package must not import another; empty if it may.
func forbidden(dir, path string, packages map[string]map[string]*ast.File, numbers map[string]int) string {
	there, ours := strings.CutPrefix(path, module+"/")
	here := subject(dir)
	switch {
	case ours && forTests(there):
		return "that is for tests"
	case (dir == "gpu" || dir == "api") && ours && there != "gpu":
		return "everybody imports the words, and they import nobody"
	case dir == "client" && subject(there) == "door":
		return "a client knows what the doors say, and no door"
	case here != "" && subject(there) != "" && here != subject(there) && numbers[subject(there)] >= numbers[here]:
		return "a subject imports from the groups above it"
	case here == "door" && (subject(there) == "device" || subject(there) == "process") && there != "internal/process" && !isPure(packages[there]):
		return "a door asks a service, and touches nothing itself"
	case (here == "lease" || here == "health") && slices.Contains(worldly, path):
		return "what keeps state reaches the world through a seam"
	case isPure(packages[dir]) && (slices.Contains(impure, path) || ours && !isPure(packages[there])):
		return "a pure package decides on values alone"
	}
	return ""
}

// isPure reports whether a package has the mark.
func isPure(files map[string]*ast.File) bool {
	for _, file := range files {
		if strings.Contains(file.Doc.Text(), pure) {
			return true
		}
	}
	return false
}

// forbidTime refuses the functions that ask what time it is, or wait for it.
func forbidTime(t *testing.T, name string, file *ast.File) {
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if pkg, ok := call.X.(*ast.Ident); ok && pkg.Name == "time" &&
			slices.Contains([]string{"Now", "Since", "Until", "Sleep", "After", "NewTimer", "NewTicker", "AfterFunc", "Tick"}, call.Sel.Name) {
			t.Errorf("%s calls time.%s: below the keepers, time is an argument", name, call.Sel.Name)
		}
		return true
	})
}

func TestTheLongestChainIsShort(t *testing.T) {
	packages := parsePackages(t)
	longest := map[string][]string{}
	var chain func(dir string) []string
	chain = func(dir string) []string {
		if known, done := longest[dir]; done {
			return known
		}
		var below []string
		for name, file := range packages[dir] {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			for _, path := range imports(file) {
				if next, ours := strings.CutPrefix(path, module+"/"); ours {
					if links := chain(next); len(links) > len(below) {
						below = links
					}
				}
			}
		}
		longest[dir] = append([]string{dir}, below...)
		return longest[dir]
	}
	if links := chain("cmd/berth-serve"); len(links) > mostLinks {
		t.Errorf("%d packages import each other in a chain, and %d are allowed: %s", len(links), mostLinks, strings.Join(links, " → "))
	}
}

// A package comment says in its first sentence, a paragraph of its own, what the one
// subject of the package is.
func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for dir, files := range parsePackages(t) {
		var first string
		for name, file := range files {
			if file.Doc != nil && !strings.HasSuffix(name, "_test.go") {
				paragraph, _, _ := strings.Cut(file.Doc.Text(), "\n\n")
				first = strings.Join(strings.Fields(paragraph), " ")
			}
		}
		switch {
		case first == "":
			t.Errorf("package %s has no package comment", dir)
		case doc.Synopsis(first) != first || !strings.HasSuffix(first, ".") && !strings.HasSuffix(first, ":"):
			t.Errorf("the comment of package %s does not begin with one sentence in a paragraph of its own: %s", dir, first)
		}
	}
}

// A type that only wraps a pointer has the methods of another type and no subject.
// Tests may wrap one.
func TestNoTypeOnlyWrapsAPointer(t *testing.T) {
	for _, files := range parsePackages(t) {
		for name, file := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			ast.Inspect(file, func(n ast.Node) bool {
				spec, is := n.(*ast.TypeSpec)
				if !is {
					return true
				}
				made, is := spec.Type.(*ast.StructType)
				if !is || len(made.Fields.List) != 1 || len(made.Fields.List[0].Names) > 0 {
					return true
				}
				if _, pointer := made.Fields.List[0].Type.(*ast.StarExpr); pointer {
					t.Errorf("%s: type %s embeds a pointer and adds no field", name, spec.Name.Name)
				}
				return true
			})
		}
	}
}

func TestThePictureIsShown(t *testing.T) {
	for _, page := range []string{"README.md", "docs/develop/architecture.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "```"+subjects+"```") {
			t.Errorf("%s does not show the subjects as they stand in this test:%s", page, subjects)
		}
	}
}

// parsePackages returns every package of the module, by folder.
func parsePackages(t *testing.T) map[string]map[string]*ast.File {
	t.Helper()
	packages, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

// parsed reads them once for all tests.
var parsed = sync.OnceValues(func() (map[string]map[string]*ast.File, error) {
	packages := map[string]map[string]*ast.File{}
	set := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != "." && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata" || isModule(path)) {
				return fs.SkipDir
			}
			return nil
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		if dir == "." || filepath.Ext(path) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		if packages[dir] == nil {
			packages[dir] = map[string]*ast.File{}
		}
		packages[dir][path] = file
		return nil
	})
	return packages, err
})

// isModule reports whether a folder is a module of its own.
func isModule(path string) bool {
	found, _ := filepath.Glob(filepath.Join(path, "go.mod"))
	return len(found) > 0
}

func imports(file *ast.File) []string {
	var paths []string
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		paths = append(paths, path)
	}
	return paths
}
