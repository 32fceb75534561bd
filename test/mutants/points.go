package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"math"
	"slices"
	"strings"
)

// point is a place that a mutant changes.
type point struct {
	in            *source
	at            token.Pos
	kind, was, is string
	// change writes both into the source, the old and the new; id says which of them is.
	change func(e *edits, id int)
}

// swaps says what becomes of an operator, and which helper does one or the other. A
// comparison can be negated as well.
var swaps = map[token.Token]struct {
	to            token.Token
	helper, types string
}{
	token.LSS: {token.LEQ, "Less", "cmp.Ordered"},
	token.LEQ: {token.LSS, "Most", "cmp.Ordered"},
	token.GTR: {token.GEQ, "More", "cmp.Ordered"},
	token.GEQ: {token.GTR, "Least", "cmp.Ordered"},
	token.ADD: {token.SUB, "Add", "mutantNumber"},
	token.SUB: {token.ADD, "Subtract", "mutantNumber"},
	token.MUL: {token.QUO, "Multiply", "mutantNumber"},
	token.QUO: {token.MUL, "Divide", "mutantNumber"},
	token.REM: {token.MUL, "Rest", "mutantInteger"},
}

var negations = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.LSS: token.GEQ, token.GEQ: token.LSS,
	token.GTR: token.LEQ, token.LEQ: token.GTR,
}

var logic = map[token.Token]token.Token{token.LAND: token.LOR, token.LOR: token.LAND}

// points returns every place of a package that can be changed, an outer one before
// those within it. Constants cannot: the compiler needs their value.
func (p *pkg) points() (all []point) {
	for _, s := range p.sources {
		add := func(at token.Pos, kind string, node ast.Node, is string, change func(e *edits, id int)) {
			all = append(all, point{s, at, kind, oneLine(s.between(node.Pos(), node.End())), oneLine(is), change})
		}
		statements := func(list []ast.Stmt) {
			for _, statement := range list {
				if removable(statement) {
					add(statement.Pos(), "statement", statement, "(left out)", func(e *edits, id int) {
						e.wrap(statement, fmt.Sprintf("if !mutant(%d) { ", id), " }")
					})
				}
			}
		}
		ast.Inspect(s.File, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BlockStmt:
				statements(n.List)
			case *ast.CaseClause:
				statements(n.Body)
			case *ast.CommClause:
				statements(n.Body)
			case *ast.BinaryExpr:
				p.binary(s, n, add)
			case *ast.UnaryExpr:
				switch {
				case n.Op == token.NOT && p.isBool(n):
					add(n.Pos(), "not", n, s.between(n.X.Pos(), n.X.End()), func(e *edits, id int) { e.negate(n, id) })
				case n.Op == token.SUB && p.isNumber(n):
					add(n.Pos(), "minus", n, s.between(n.X.Pos(), n.X.End()), func(e *edits, id int) {
						e.wrap(n, fmt.Sprintf("mutantMinus(%d, ", id), ")")
						e.replace(n.OpPos, n.Op, " ")
					})
				}
			case *ast.IncDecStmt:
				if p.steps(n.X) {
					op, x := n.Tok.String()[:1], s.between(n.X.Pos(), n.X.End())
					other := map[string]string{"+": "--", "-": "++"}[op]
					add(n.TokPos, "step", n, x+other, func(e *edits, id int) {
						e.replace(n.TokPos, n.Tok, fmt.Sprintf(" %s= mutantSigned(%d, %s, 1)", op, id, x))
					})
				}
			case *ast.AssignStmt:
				other := map[token.Token]string{token.ADD_ASSIGN: " -= ", token.SUB_ASSIGN: " += "}[n.Tok]
				if other != "" && p.steps(n.Lhs[0]) {
					x, y := s.between(n.Lhs[0].Pos(), n.Lhs[0].End()), s.between(n.Rhs[0].Pos(), n.Rhs[0].End())
					add(n.TokPos, "step", n, x+other+y, func(e *edits, id int) {
						e.wrap(n.Rhs[0], fmt.Sprintf("mutantSigned(%d, %s, ", id, x), ")")
					})
				}
			}
			return true
		})
	}
	return all
}

func (p *pkg) binary(s *source, n *ast.BinaryExpr, add func(token.Pos, string, ast.Node, string, func(*edits, int))) {
	with := func(op token.Token) string {
		return s.between(n.Pos(), n.OpPos) + op.String() + s.between(n.OpPos+token.Pos(len(n.Op.String())), n.End())
	}
	if to, ok := negations[n.Op]; ok && p.isBool(n) {
		add(n.OpPos, "negation", n, with(to), func(e *edits, id int) { e.negate(n, id) })
	}
	// By De Morgan, each is the other between negations, and still looks at its right
	// side only if it must.
	if to, ok := logic[n.Op]; ok && p.isBool(n) {
		add(n.OpPos, "logic", n, with(to), func(e *edits, id int) {
			e.negate(n, id)
			e.negate(n.X, id)
			e.negate(n.Y, id)
		})
	}
	if swap, ok := swaps[n.Op]; ok && types.Identical(p.info.TypeOf(n.X), p.info.TypeOf(n.Y)) {
		change := func(e *edits, id int) {
			e.wrap(n, fmt.Sprintf("mutant%s(%d, ", swap.helper, id), ")")
			e.replace(n.OpPos, n.Op, ",")
		}
		if p.isNumber(n) {
			add(n.OpPos, "arithmetic", n, with(swap.to), change)
		} else if p.isBool(n) && p.is(n.X, types.IsOrdered) {
			add(n.OpPos, "boundary", n, with(swap.to), change)
		}
	}
}

// removable reports whether the rest still builds and means something without a
// statement: it is a call, or it stores something.
func removable(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		if !ok {
			return false
		}
		name, _ := call.Fun.(*ast.Ident)
		return name == nil || name.Name != "panic" // a function may end with it
	case *ast.AssignStmt:
		return s.Tok == token.ASSIGN && slices.ContainsFunc(s.Lhs, func(x ast.Expr) bool {
			name, _ := x.(*ast.Ident)
			return name == nil || name.Name != "_"
		})
	}
	return false
}

// isBool reports whether e is no constant, and its type is bool itself: a helper
// returns that.
func (p *pkg) isBool(e ast.Expr) bool {
	t := p.info.Types[e]
	return t.Value == nil && (t.Type == types.Typ[types.Bool] || t.Type == types.Typ[types.UntypedBool])
}

func (p *pkg) isNumber(e ast.Expr) bool {
	return p.info.Types[e].Value == nil && p.is(e, types.IsInteger|types.IsFloat)
}

// is reports whether the type of e has a property; a parameter for types has none.
func (p *pkg) is(e ast.Expr, what types.BasicInfo) bool {
	basic, ok := p.info.TypeOf(e).Underlying().(*types.Basic)
	return ok && basic.Info()&what != 0
}

// steps reports whether x is a number that can be written twice: it calls nothing and
// receives nothing.
func (p *pkg) steps(x ast.Expr) bool {
	twice := p.isNumber(x)
	ast.Inspect(x, func(n ast.Node) bool {
		unary, ok := n.(*ast.UnaryExpr)
		_, call := n.(*ast.CallExpr)
		twice = twice && !call && !(ok && unary.Op == token.ARROW)
		return twice
	})
	return twice
}

// between returns the text of a source from one place to another.
func (s *source) between(from, to token.Pos) string {
	return string(s.text[from-s.FileStart : to-s.FileStart])
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// edits collects what is written into a source. Lines stay where they are.
type edits []edit

type edit struct {
	at     token.Pos
	length int
	text   string
	order  int // among those at one place: what ends, what begins, what is replaced
}

// wrap puts text around a node. Who wraps two nodes, one in the other, begins with the outer one.
func (e *edits) wrap(n ast.Node, before, after string) {
	turn := len(*e) + 1
	*e = append(*e, edit{at: n.Pos(), text: before, order: turn}, edit{at: n.End(), text: after, order: -turn})
}

// negate negates a condition if the mutant is.
func (e *edits) negate(n ast.Expr, id int) {
	e.wrap(n, "((", fmt.Sprintf(") != mutant(%d))", id))
}

func (e *edits) replace(at token.Pos, what token.Token, text string) {
	*e = append(*e, edit{at: at, length: len(what.String()), text: text, order: math.MaxInt})
}

func (e *edits) apply(s *source) (text []byte) {
	slices.SortFunc(*e, func(a, b edit) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order)) })
	at := s.FileStart
	for _, one := range *e {
		text = append(append(text, s.between(at, one.at)...), one.text...)
		at = one.at + token.Pos(one.length)
	}
	return append(text, s.between(at, s.FileEnd)...)
}

// helpers returns the file that each package gets.
func helpers(name string) []byte {
	text := fmt.Appendf(nil, `package %s

import (
	"cmp"
	"os"
	"strconv"
)

var mutated, _ = strconv.Atoi(os.Getenv("BERTH_MUTANT"))

func mutant(id int) bool { return id == mutated }

type mutantInteger interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

type mutantNumber interface{ mutantInteger | ~float32 | ~float64 }

func mutantMinus[T mutantNumber](id int, x T) T { if mutant(id) { return x }; return -x }

// mutantSigned returns y, or with the mutant -y; x gives the type of both.
func mutantSigned[T mutantNumber](id int, x, y T) T { if mutant(id) { return -y }; return y }
`, name)
	for _, from := range slices.Sorted(maps.Keys(swaps)) {
		swap, result := swaps[from], "T"
		if swap.types == "cmp.Ordered" {
			result = "bool"
		}
		text = fmt.Appendf(text, "\nfunc mutant%s[T %s](id int, x, y T) %s { if mutant(id) { return x %s y }; return x %s y }\n",
			swap.helper, swap.types, result, swap.to, from)
	}
	return text
}
