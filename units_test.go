package berth_test

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// One message has one unit: amounts of memory and of energy that stand in the same message
// choose theirs together (Beside, ExactBeside), because each for itself would write
// "needs 60 GiB and has 512 MiB". The test looks at the types of what is formatted in every
// package.
func TestOneUnitPerMessage(t *testing.T) {
	const module = "github.com/berth-gpu/berth/"
	args := append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}\t{{.Dir}}\t{{range .GoFiles}}{{.}} {{end}}"}, buildFlags(t)...)
	out, err := exec.Command("go", append(args, "./internal/...")...).Output()
	if err != nil {
		t.Fatal(err)
	}
	exports, own := map[string]string{}, map[string][]string{}
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		exports[f[0]] = f[1]
		if strings.HasPrefix(f[0], module+"internal/") && !strings.HasSuffix(f[0], "test") && len(f) > 3 {
			for _, name := range strings.Fields(f[3]) {
				own[f[0]] = append(own[f[0]], filepath.Join(f[2], name))
			}
		}
	}
	files := token.NewFileSet()
	load := importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	looked := 0
	for path, sources := range own {
		var parsed []*ast.File
		uses := false
		for _, source := range sources {
			f, err := parser.ParseFile(files, source, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range f.Imports {
				uses = uses || i.Path.Value == `"`+module+`gpu"`
			}
			parsed = append(parsed, f)
		}
		if !uses {
			continue
		}
		info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
		config := types.Config{Importer: load, Error: func(error) {}} // cgo is not known, and not needed
		_, _ = config.Check(path, files, parsed, info)
		for _, f := range parsed {
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || formatAt(call) < 0 {
					return true
				}
				looked++
				amounts := map[string][]string{}
				for _, arg := range call.Args[formatAt(call)+1:] {
					if kind := amount(info, arg); kind != "" {
						amounts[kind] = append(amounts[kind], types.ExprString(arg))
					}
				}
				for kind, list := range amounts {
					if len(list) > 1 {
						t.Errorf("%s: %s: write them in one unit", files.Position(call.Pos()), fmt.Sprint(kind, list))
					}
				}
				return true
			})
		}
	}
	if looked < 500 {
		t.Errorf("only %d messages were looked at", looked)
	}
}

// formatAt returns which argument of a call is the format of a message, or -1 if none is.
func formatAt(call *ast.CallExpr) int {
	for i, arg := range call.Args {
		if s, ok := arg.(*ast.BasicLit); ok && s.Kind == token.STRING && strings.Contains(s.Value, "%") {
			return i
		}
	}
	return -1
}

// amount returns the kind of amount that an argument writes in a unit of its own choice.
func amount(info *types.Info, arg ast.Expr) string {
	if call, ok := arg.(*ast.CallExpr); ok {
		if method, ok := call.Fun.(*ast.SelectorExpr); ok && (method.Sel.Name == "Exact" || method.Sel.Name == "String") {
			arg = method.X
		}
	}
	switch found := info.Types[arg].Type; {
	case found == nil:
		return ""
	case strings.HasSuffix(found.String(), "/berth/gpu.MiB"):
		return "memory"
	case strings.HasSuffix(found.String(), "/berth/gpu.Joules"):
		return "energy"
	}
	return ""
}

// buildFlags returns the flags that this test was built with: what has them is compiled.
func buildFlags(t *testing.T) (flags []string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		t.Fatal("this test does not know how it was built")
	}
	for _, s := range info.Settings {
		if slices.Contains([]string{"-race", "-buildmode", "-trimpath", "-tags"}, s.Key) {
			flags = append(flags, s.Key+"="+s.Value)
		}
	}
	return flags
}
