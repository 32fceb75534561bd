package berth_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/berth-gpu/berth"

// floors is the architecture: each package imports only from floors below its
// own. A package that is not listed fails the test, so a new one has to find
// its place first.
var floors = [][]string{
	0: {"gpu", "internal/spelling", "internal/words"},
	1: {"api", "internal/term", "internal/access", "internal/backlog", "internal/batch/chunk", "internal/batch/rawjson", "internal/config", "internal/health", "internal/lease", "internal/thermal", "internal/wire"},
	2: {"internal/placement"},
	3: {"internal/pipeline", "internal/planview", "internal/view"},
	4: {"client", "internal/batch/outcome", "internal/batch/record", "internal/device", "internal/cexec", "internal/journal", "internal/process", "internal/wholefile"},
	5: {
		"internal/batch", "internal/batches", "internal/events", "internal/peaks", "internal/hooks", "internal/ledger", "internal/monitor", "internal/users", "internal/watchdog", // keepers
		"internal/device/nvml", "internal/device/sim", "internal/journal/filelog", "internal/launch", "internal/libprobe", "internal/logqueue", "internal/mps", "internal/peer", "internal/runner", // adapters
	},
	6: {"internal/desk"}, // services
	7: {"internal/cli", "internal/httpapi", "internal/promexport"},
	8: {"internal/daemon"},
	9: {"cmd/berth"},
}

// beside reports whether a package stands beside the building: programs that
// measure it and suites that test it. They may use it, and only tests use them.
func beside(dir string) bool {
	return strings.HasPrefix(dir, "bench/") || strings.HasPrefix(dir, "chaos") || strings.HasSuffix(dir, "test")
}

// impure lists what a pure package (floors 0 to 3) must not touch: a decision
// that reads a file or asks the time cannot be replayed.
var impure = []string{"os", "os/exec", "net", "net/http", "syscall", "io/ioutil", "log", "log/slog", "sync", "context", "embed"}

func TestFloors(t *testing.T) {
	floorOf := map[string]int{}
	for floor, packages := range floors {
		for _, p := range packages {
			floorOf[p] = floor
		}
	}
	for dir, files := range parsePackages(t) {
		if beside(dir) {
			continue
		}
		floor, listed := floorOf[dir]
		if !listed {
			t.Errorf("package %s has no floor: add it to floors in this file", dir)
			continue
		}
		for name, file := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			for _, path := range imports(file) {
				below, ours := strings.CutPrefix(path, module+"/")
				if ours && beside(below) {
					t.Errorf("%s imports %s, which is for tests", name, below)
				}
				if ours && floorOf[below] >= floor {
					t.Errorf("%s (floor %d) imports %s (floor %d): imports go strictly down", name, floor, below, floorOf[below])
				}
				if floor <= 3 && slices.Contains(impure, path) {
					t.Errorf("%s imports %s: packages of floor %d are pure", name, path, floor)
				}
			}
			if floor <= 3 {
				forbidTime(t, name, file)
			}
		}
	}
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

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for dir, files := range parsePackages(t) {
		documented := false
		for name, file := range files {
			documented = documented || (file.Doc != nil && !strings.HasSuffix(name, "_test.go"))
		}
		if !documented {
			t.Errorf("package %s has no package comment", dir)
		}
	}
}

// parsePackages reads every package of the module, by folder.
func parsePackages(t *testing.T) map[string]map[string]*ast.File {
	t.Helper()
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
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

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
