package berth_test

import (
	"go/ast"
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

// picture is the architecture. Each package imports only from floors below its
// own, so packages of one floor do not import each other. Names are those of
// folders in internal/, except for the public packages and the binary. The
// README and docs/architecture.md show this picture; the test compares them.
const picture = `
10  BINARIES   cmd/berth  cmd/berth-serve
 9  WIRING     daemon  cli
 8  DOORS      door/httpapi  door/promexport  cli/look  cli/leasing  cli/work  cli/rights  cli/upkeep  door/promapi  door/webui  cli/top
 7  SERVICES   desk  desk/oversight  cli/programs  desk/doctor  cli/console  door/apitext  enforce/throttle  enforce/checkup  enforce/reclaim  enforce/parking  door/doorkeeper
 6  KEEPERS    lease/ledger  health/monitor  batch  history/events  history/hooks  lease/peaks  lease/archive  lease/audit  batch/runs  history/throughput  history/labels  access/users  enforce/watchdog  desk/tokens  door/tries  lease/turns  health/drains  history/joules  enforce/idle  history/alerts  door/sessions
    ADAPTERS   device/nvml  device/sim  file/journal/filelog  batch/worker  batch/libprobe  batch/runner  process/mps  door/peercred  file/logqueue  history/hookcall  process/cgroup  enforce/pacer  device/amd  device/intel  device/exam  device/prover  process/devicelock  history/rulefile  deploy/prometheus  history/past  history/query  cli/kubectl
 5  SEAMS      client  process  process/watch  device  file/journal  process/child  process/cexec  file/wholefile  file/appendfile  file/ownfile  lease/ways  batch/outcome  batch/record  device/drm  device/cuda  door/problems
    DECISIONS  cli/tui
 4  DECISIONS  batch/pipeline  batch/planview  cli/view  cli/nodeview
 3  DECISIONS  lease/placement  process/launch  door/wire  lease/quota  lease/allowance  lease/notice  enforce/slowdown  lease/attribution
 2  DECISIONS  lease  config  health/thermal  health/heat  health  history/backlog  history/report  process/kinship  device/residue  lease/audit/chain  batch/chunk  batch/rawjson  device/proof  history/energy  enforce/pace  device/park  history/alert  history/rollup  history/report/page  cli/fleet
 1  GROUND     api  text/document  text/term  access  lease/stored  device/trace  lease/filling  text/flagvalue  device/nvml/xid  lease/alarm  history/series  text/chart
 0  WORDS      gpu  text/words
`

// public are the packages outside of internal/ that have a floor.
var public = []string{"api", "client", "cmd/berth", "cmd/berth-serve", "deploy/prometheus", "gpu"}

// beside are the packages beside the building: programs that measure it and
// suites that test it. They may use it, and only tests use them.
var beside = []string{
	"bench/access", "bench/batch", "bench/exec", "bench/forecast", "bench/foundations", "bench/startup", "bench/gpu/filtered", "bench/gpu/samplecost", "bench/handover", "bench/hostile", "bench/past", "audit",
	"chaos", "internal/daemon/daemontest", "internal/device/devicetest", "internal/device/drm/drmtest", "internal/file/journal/filelog/disktest", "internal/file/journal/journaltest",
}

// mostLinks is the limit of the longest chain of imports, in packages.
const mostLinks = 8

// impure lists what a pure package must not import: a decision that reads a
// file or asks the time cannot be replayed.
var impure = []string{"os", "os/exec", "net", "net/http", "syscall", "io/ioutil", "log", "log/slog", "sync", "context", "embed"}

// worldly lists what a keeper must not import: it reaches the world through
// seams.
var worldly = []string{"os/exec", "net/http", "syscall", "golang.org/x/sys/unix"}

// place is where a package stands.
type place struct {
	floor int
	kind  string
}

func (p place) pure() bool {
	return p.kind == "WORDS" || p.kind == "GROUND" || p.kind == "DECISIONS"
}

// places reads the picture.
func places(t *testing.T) map[string]place {
	all := map[string]place{}
	floor := 0
	for line := range strings.Lines(strings.TrimPrefix(picture, "\n")) {
		words := strings.Fields(line)
		if n, err := strconv.Atoi(words[0]); err == nil {
			floor, words = n, words[1:]
		}
		for _, name := range words[1:] {
			if !slices.Contains(public, name) {
				name = "internal/" + name
			}
			if _, twice := all[name]; twice {
				t.Errorf("%s stands in the picture twice", name)
			}
			all[name] = place{floor, words[0]}
		}
	}
	return all
}

func TestFloors(t *testing.T) {
	standing, packages := places(t), parsePackages(t)
	for name := range standing {
		if packages[name] == nil {
			t.Errorf("%s stands in the picture, and there is no such package", name)
		}
	}
	for dir, files := range packages {
		if slices.Contains(beside, dir) {
			continue
		}
		here, listed := standing[dir]
		if !listed {
			t.Errorf("package %s has no floor: give it a place in the picture", dir)
			continue
		}
		for name, file := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			for _, path := range imports(file) {
				if why := forbidden(here, path, standing); why != "" {
					t.Errorf("%s (%s) imports %s: %s", name, here.kind, path, why)
				}
			}
			if here.pure() {
				forbidTime(t, name, file)
			}
		}
	}
}

// forbidden says why a package must not import another; empty if it may.
func forbidden(here place, path string, standing map[string]place) string {
	below, ours := strings.CutPrefix(path, module+"/")
	there := standing[below]
	switch {
	case ours && slices.Contains(beside, below):
		return "that is for tests"
	case ours && there.floor >= here.floor:
		return "imports go strictly down"
	case here.kind == "DOORS" && there.kind == "ADAPTERS":
		return "a door asks a service, and touches nothing itself"
	case here.kind == "KEEPERS" && slices.Contains(worldly, path):
		return "a keeper reaches the world through a seam"
	case here.pure() && slices.Contains(impure, path):
		return "decisions and what is below them are pure"
	}
	return ""
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

func TestThePictureIsShown(t *testing.T) {
	for _, page := range []string{"README.md", "docs/architecture.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "```"+picture+"```") {
			t.Errorf("%s does not show the picture as it stands in this test:%s", page, picture)
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
