package berth_test

import (
	"go/ast"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// docs/reference/limits.md names a constant for each limit that the code holds as
// one, and says what it is.
func TestThePageOfLimitsSaysWhatTheCodeSays(t *testing.T) {
	page, err := os.ReadFile("docs/reference/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	declared := constants(parsePackages(t))
	rows := regexp.MustCompile("(?m)^\\| ([^|]+) \\| ([0-9][0-9,]*)(?: (KiB|MiB|s|hours?|days))?[^|]*\\|.*\\| `(\\w+\\.\\w+)` \\|$").FindAllStringSubmatch(string(page), -1)
	if len(rows) < 40 {
		t.Errorf("only %d limits are compared", len(rows))
	}
	units := map[string]int64{"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "s": 1e9, "hour": 3600e9, "hours": 3600e9, "days": 24 * 3600e9}
	for _, row := range rows {
		number, err := strconv.ParseInt(strings.ReplaceAll(row[2], ",", ""), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if found, ok := declared[row[4]]; !ok {
			t.Errorf("%s: there is no constant %s", row[1], row[4])
		} else if !found[number*units[row[3]]] {
			t.Errorf("%s: the page says %s %s, and %s is %v", row[1], row[2], row[3], row[4], found)
		}
	}
}

// constants returns the numbers of all constants, by the subject and the name, or outside
// of internal/ by the first folder. A name that several packages of a subject have has
// several.
func constants(packages map[string]map[string]*ast.File) map[string]map[int64]bool {
	all := map[string]map[int64]bool{}
	for dir, files := range packages {
		of, _, _ := strings.Cut(strings.TrimPrefix(dir, "internal/"), "/")
		for name, file := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			for _, decl := range file.Decls {
				group, ok := decl.(*ast.GenDecl)
				if !ok || group.Tok != token.CONST {
					continue
				}
				for _, spec := range group.Specs {
					for i, value := range spec.(*ast.ValueSpec).Values {
						key := of + "." + spec.(*ast.ValueSpec).Names[i].Name
						if number, ok := evaluate(value); ok {
							if all[key] == nil {
								all[key] = map[int64]bool{}
							}
							all[key][number] = true
						}
					}
				}
			}
		}
	}
	return all
}

// evaluate returns the number that an expression of literals and of units of time
// stands for.
func evaluate(e ast.Expr) (int64, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		n, err := strconv.ParseInt(e.Value, 0, 64)
		return n, err == nil
	case *ast.ParenExpr:
		return evaluate(e.X)
	case *ast.SelectorExpr:
		n, ok := map[string]int64{"Millisecond": 1e6, "Second": 1e9, "Minute": 60e9, "Hour": 3600e9}[e.Sel.Name]
		return n, ok
	case *ast.BinaryExpr:
		x, left := evaluate(e.X)
		y, right := evaluate(e.Y)
		switch {
		case !left || !right:
		case e.Op == token.MUL:
			return x * y, true
		case e.Op == token.SHL:
			return x << y, true
		case e.Op == token.ADD:
			return x + y, true
		}
	}
	return 0, false
}
