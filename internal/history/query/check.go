package query

import (
	"regexp/syntax"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/strutil"

	"github.com/berth-gpu/berth/internal/history/series"
)

// check refuses an invalid expression, and one that is known to exceed a limit before it
// is evaluated. It returns the cost for each series that the expression reads.
func (e *Engine) check(expr string, from, to time.Time, step time.Duration) (cost, error) {
	if err := e.limits.text("query", expr); err != nil {
		return cost{}, err
	}
	tree, err := e.prepared(expr, from, to, step)
	if err != nil {
		return cost{}, bad("invalid parameter \"query\": %v", err)
	}
	selectors := 0
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		if _, is := node.(*parser.VectorSelector); is {
			selectors++
		}
		return nil
	})
	if selectors > e.limits.Selectors {
		return cost{}, bad("the query selects series %d times, and the limit is %d: split it into several queries", selectors, e.limits.Selectors)
	}
	c := estimator{e.limits.Most}.of(tree, times{float64(from.UnixMilli()), float64(to.UnixMilli()), float64(step.Milliseconds())})
	return c, e.limits.tooMuch(c)
}

// prepared parses an expression and prepares it as the engine does.
func (e *Engine) prepared(expr string, from, to time.Time, step time.Duration) (parser.Expr, error) {
	tree, err := e.parser.ParseExpr(expr)
	if err != nil {
		return nil, err
	}
	return promql.PreprocessExpr(tree, from, to, step)
}

// subqueryStep is the step of a subquery that sets none, as in Prometheus.
const subqueryStep = time.Minute

// text refuses texts that take too long to parse: long ones, and those with regular
// expressions that become large when the parser compiles them, which it does at once.
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

// patterns returns an estimate of how many steps the compiled regular expressions of a
// text in PromQL have. Every string in it may be one: those of matchers, and the
// arguments of label_replace.
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
			if value, err := strutil.Unquote(item.Val); err == nil {
				sum = min(sum+patternWeight(value), enough)
			}
		}
	}
}

// patternWeight returns an estimate of how many steps a text has when it is compiled as a
// regular expression, or 0 if it is not one.
func patternWeight(text string) int {
	tree, err := syntax.Parse(text, syntax.Perl|syntax.DotNL)
	if err != nil {
		return 0
	}
	return weight(tree)
}

// enough is more than any limit of patterns.
const enough = 1 << 40

// weight returns an estimate of how many steps a regular expression has when it is
// compiled.
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
