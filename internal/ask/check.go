package ask

import (
	"regexp/syntax"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/strutil"

	"github.com/berth-gpu/berth/internal/series"
)

// check refuses an expression that is not one, or whose limits can be seen before
// it is evaluated.
func (e *Engine) check(expr string) error {
	if err := e.limits.text("query", expr); err != nil {
		return err
	}
	tree, err := e.parser.ParseExpr(expr)
	if err != nil {
		return bad("invalid parameter \"query\": %v", err)
	}
	var selectors int
	var refused error
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			selectors++
		case *parser.SubqueryExpr:
			step := n.Step
			if step <= 0 {
				step = subqueryStep
			}
			if n.Range/step > time.Duration(e.limits.Steps) {
				refused = bad("the subquery [%v:%v] has more than %s steps, which is the limit: choose a longer step or a shorter range", n.Range, step, grouped(e.limits.Steps))
			}
		}
		return refused
	})
	if refused != nil {
		return refused
	}
	if selectors > e.limits.Selectors {
		return bad("the query selects series %d times, and the limit is %d: split it into several queries", selectors, e.limits.Selectors)
	}
	return nil
}

// subqueryStep is the step of a subquery that names none, as in Prometheus.
const subqueryStep = time.Minute

// text refuses texts that take too long to read: long ones, and those with
// regular expressions that become large when they are compiled, which the parser
// does at once.
func (l Limits) text(parameter string, texts ...string) *series.Error {
	length := 0
	for _, text := range texts {
		length += len(text)
	}
	if length > l.Length {
		return bad("invalid parameter %q: it has %s bytes, and the limit is %s: split it into several queries", parameter, grouped(length), grouped(l.Length))
	}
	pattern := 0
	for _, text := range texts {
		pattern += patterns(text)
	}
	if pattern > l.Pattern {
		return bad("invalid parameter %q: its regular expressions are too large when they are compiled (about %s steps; the limit is %s): repeat less in them", parameter, grouped(pattern), grouped(l.Pattern))
	}
	return nil
}

// patterns returns about how many steps the compiled regular expressions of a text
// in PromQL have. Every string in it may be one: those of matchers, and those that
// label_replace is given.
func patterns(text string) int {
	sum := 0
	lexer := parser.Lex(text)
	for {
		var item parser.Item
		lexer.NextItem(&item)
		switch item.Typ {
		case parser.EOF, parser.ERROR:
			return sum
		case parser.STRING:
			value, err := strutil.Unquote(item.Val)
			if err != nil {
				continue
			}
			if tree, err := syntax.Parse(value, syntax.Perl|syntax.DotNL); err == nil {
				sum = min(sum+weight(tree), enough)
			}
		}
	}
}

// enough is more than any limit of patterns.
const enough = 1 << 40

// weight returns about how many steps a regular expression is compiled to.
func weight(re *syntax.Regexp) int {
	own := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		own = min(own+weight(sub), enough)
	}
	if re.Op == syntax.OpRepeat {
		own *= max(re.Max, re.Min+1, 1)
	}
	return min(own, enough)
}
