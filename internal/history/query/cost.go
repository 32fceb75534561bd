package query

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
)

// The engine checks its context between series, and counts samples. But it lets one
// series take any number of steps, allocates room for points that never come, and builds
// labels of any length. So this package estimates the cost of an expression from its tree
// before it is evaluated, for each series that it will read, and counts the series while
// they are read (see sight).

// cost is the most that an expression may take.
type cost struct {
	steps   float64 // moments of the subquery that has the most
	work    float64 // samples that one function looks at for one series before the engine checks its context again
	rows    float64 // series that one series becomes: count_values makes one of each value
	cells   float64 // room for points, for each series
	sources float64 // series that come from no store, such as vector(1)
	made    float64 // bytes that are built besides the samples, whatever is read
	label   size    // of the longest label value
	labels  size    // of all labels of a series
	pattern float64 // steps of the regular expressions of label_replace
	builds  bool    // the expression makes labels
}

// size is a number of bytes that depends on the labels of a series of the store.
type size struct{ times, more float64 }

func (s size) of(stored float64) float64 { return s.times*stored + s.more }

// repeated returns the size of several copies and more bytes.
func (s size) repeated(copies, more float64) size {
	return size{s.times * copies, s.more*copies + more}
}

func (s size) plus(o size) size { return size{s.times + o.times, s.more + o.more} }

func (s size) max(o size) size { return size{max(s.times, o.times), max(s.more, o.more)} }

// with returns the cost of two expressions, one of which works on the result of the other
// or beside it.
func (c cost) with(o cost) cost {
	return cost{
		steps: max(c.steps, o.steps), work: max(c.work, o.work), rows: max(c.rows, o.rows), cells: max(c.cells, o.cells), sources: c.sources + o.sources,
		made: c.made + o.made, label: c.label.max(o.label), labels: c.labels.max(o.labels), pattern: c.pattern + o.pattern, builds: c.builds || o.builds,
	}
}

// times are the moments at which an expression is evaluated, in milliseconds.
type times struct{ from, to, step float64 }

func (t times) count() float64 {
	if t.step <= 0 || t.to <= t.from {
		return 1
	}
	return math.Floor((t.to-t.from)/t.step) + 1
}

const (
	// firstRoom is the room for points that the engine allocates at once for each series
	// of the result of an operator, however few points it gets.
	firstRoom = 5000
	// remark is about how many bytes a warning of the engine takes.
	remark = 512
	// number is the length of the longest text of a number.
	number = 32
)

// estimator estimates costs. most returns the most samples that a series of the store has
// between two times.
type estimator struct{ most func(from, to int64) float64 }

// of estimates an expression that the engine has prepared.
func (e estimator) of(expr parser.Expr, at times) cost {
	c := e.node(expr, at)
	c.cells = max(c.cells, c.rows*min(at.count(), firstRoom))
	return c
}

func (e estimator) node(expr parser.Expr, at times) cost {
	switch n := expr.(type) {
	case *parser.StepInvariantExpr: // evaluated once
		return e.of(n.Expr, times{from: at.from, to: at.from, step: at.step})
	case *parser.ParenExpr:
		return e.of(n.Expr, at)
	case *parser.UnaryExpr:
		return e.of(n.Expr, at)
	case *parser.VectorSelector:
		return cost{rows: 1, label: size{times: 1}, labels: size{times: 1}}
	case *parser.MatrixSelector:
		return cost{rows: 1, label: size{times: 1}, labels: size{times: 1}}
	case *parser.SubqueryExpr:
		return e.subquery(n, at)
	case *parser.BinaryExpr:
		return e.binary(n, at)
	case *parser.AggregateExpr:
		return e.aggregate(n, at)
	case *parser.Call:
		return e.call(n, at)
	}
	return cost{rows: 1, sources: 1} // a number or a text
}

// subquery estimates an expression that is evaluated at every step of all ranges of the
// moments around it, even where they leave gaps.
func (e estimator) subquery(n *parser.SubqueryExpr, at times) cost {
	inside := times{from: at.from - float64(n.Range.Milliseconds()), to: at.to, step: float64(stepOf(n).Milliseconds())}
	c := e.of(n.Expr, inside)
	c.steps = max(c.steps, inside.count())
	return c
}

// stepOf returns the step of a subquery.
func stepOf(n *parser.SubqueryExpr) time.Duration {
	if n.Step <= 0 {
		return subqueryStep
	}
	return n.Step
}

func (e estimator) binary(n *parser.BinaryExpr, at times) cost {
	left, right := e.of(n.LHS, at), e.of(n.RHS, at)
	c := left.with(right)
	if m := n.VectorMatching; m != nil && len(m.Include) > 0 { // labels of both sides
		c.labels = left.labels.plus(right.labels)
	}
	return c
}

func (e estimator) aggregate(n *parser.AggregateExpr, at times) cost {
	c := e.of(n.Expr, at)
	if n.Param == nil {
		return c
	}
	c = c.with(e.of(n.Param, at))
	if n.Op == parser.COUNT_VALUES {
		c.rows *= at.count()
		c.builds = true
		c.labels = c.labels.plus(size{more: number + float64(len(n.Param.String()))})
	}
	return c
}

// call estimates a function.
func (e estimator) call(n *parser.Call, at times) cost {
	c := cost{rows: 1, sources: 1}
	for _, a := range n.Args {
		c = c.with(e.of(a, at))
	}
	switch n.Func.Name {
	case "label_replace":
		return c.replacing(n.Args)
	case "label_join":
		return c.joining(n.Args)
	case "quantile_over_time", "histogram_quantile":
		if !constant(n.Args[0]) { // the engine warns about every value that is not a quantile
			c.made += remark * at.count()
		}
	}
	for _, a := range n.Args {
		c.work = max(c.work, weightOf(n.Func.Name)*e.samples(a, at))
	}
	return c
}

// constant reports whether an expression has a single value.
func constant(expr parser.Expr) bool {
	switch n := expr.(type) {
	case *parser.NumberLiteral:
		return true
	case *parser.UnaryExpr:
		return constant(n.Expr)
	case *parser.ParenExpr:
		return constant(n.Expr)
	case *parser.StepInvariantExpr:
		return true
	}
	return false
}

// weightOf returns how much longer a function takes for a sample than one that only adds
// it up.
func weightOf(function string) float64 {
	switch function {
	case "quantile_over_time": // sorts
		return 40
	case "stddev_over_time", "stdvar_over_time", "deriv", "predict_linear":
		return 3
	}
	return 1
}

// samples returns how many samples of one series the windows of a range have at all
// moments together, or 0 if the expression is not a range.
func (e estimator) samples(expr parser.Expr, at times) float64 {
	switch n := expr.(type) {
	case *parser.StepInvariantExpr:
		return e.samples(n.Expr, at) * at.count() // read once, and looked at each time
	case *parser.ParenExpr:
		return e.samples(n.Expr, at)
	case *parser.SubqueryExpr:
		return at.count() * (float64(n.Range)/float64(stepOf(n)) + 1)
	case *parser.MatrixSelector:
		window := float64(n.Range.Milliseconds())
		selector := n.VectorSelector.(*parser.VectorSelector)
		if selector.Timestamp != nil { // every moment has the same window
			return at.count() * e.window(float64(*selector.Timestamp), window)
		}
		at.from, at.to = at.from-float64(selector.OriginalOffset.Milliseconds()), at.to-float64(selector.OriginalOffset.Milliseconds())
		const looks = 64 // number of windows that stand for all
		sum := 0.0
		for i := range looks {
			sum += e.window(at.from+(at.to-at.from)*float64(i)/(looks-1), window)
		}
		return at.count() * sum / looks
	}
	return 0
}

// window returns the most samples that a series has in a window that ends at a time.
func (e estimator) window(end, length float64) float64 {
	return e.most(milliseconds(end-length), milliseconds(end))
}

func milliseconds(t float64) int64 { return int64(min(max(t, -lastMoment), lastMoment)) }

// replacing adds what label_replace builds: its text, with the label that it reads in
// place of every reference.
func (c cost) replacing(args parser.Expressions) cost {
	to, text, pattern := literal(args[1]), literal(args[2]), literal(args[4])
	value := c.label.repeated(float64(strings.Count(text, "$")), float64(len(text)))
	c.pattern += float64(patternWeight(pattern)) * float64(1+strings.Count(pattern, "(")) // each step copies the content of the groups
	return c.labelled(to, value)
}

// joining adds what label_join builds: all the labels that it reads, with a text between
// them.
func (c cost) joining(args parser.Expressions) cost {
	count := float64(len(args) - 3)
	return c.labelled(literal(args[1]), c.label.repeated(count, count*float64(len(literal(args[2])))))
}

func (c cost) labelled(name string, value size) cost {
	c.builds = true
	c.label = c.label.max(value)
	c.labels = c.labels.plus(value).plus(size{more: float64(len(name))})
	return c
}

// literal returns the text of an argument.
func literal(expr parser.Expr) string {
	switch n := expr.(type) {
	case *parser.StringLiteral:
		return n.Val
	case *parser.ParenExpr:
		return literal(n.Expr)
	case *parser.StepInvariantExpr:
		return literal(n.Expr)
	}
	return ""
}

// tooMuch returns the limit that an expression exceeds whatever it reads, or nil.
func (l Limits) tooMuch(c cost) error {
	switch {
	case c.steps > float64(l.Steps):
		return bad("a subquery of the query has about %s steps, and the limit is %s: choose a longer step or shorter ranges. It is evaluated at every step of the time around it, too", rough(c.steps), grouped(l.Steps))
	case c.work > float64(l.Work):
		return bad("the query looks at about %s samples for each series, and the limit is %s: the steps of subqueries and ranges multiply. Choose longer steps or shorter ranges", rough(c.work), grouped(l.Work))
	}
	if err := l.beyond(c, c.before()); err != nil {
		return bad("%v", err)
	}
	return nil
}

// tally sums up what the series that a question has read so far become.
type tally struct {
	series  float64 // including those that come from no store
	made    float64 // bytes of labels
	matched float64 // steps of regular expressions
}

// before returns the tally before any series is read.
func (c cost) before() tally {
	return tally{series: c.sources, made: c.made + c.sources*c.rows*c.labels.of(0), matched: c.sources * c.pattern * c.label.of(0)}
}

// add counts a series whose labels have this many bytes.
func (t *tally) add(c *cost, bytes float64) {
	t.series++
	if !c.builds {
		return
	}
	t.made += c.rows * c.labels.of(bytes)
	t.matched += c.pattern * c.label.of(bytes)
}

// beyond returns the limit that the series read so far exceed, or nil.
func (l Limits) beyond(c cost, t tally) error {
	switch {
	case t.series*c.cells > float64(l.Cells):
		return fmt.Errorf("the query makes room for about %s points (series times steps), and the limit is %s: ask for fewer series, a shorter time or a longer step", rough(t.series*c.cells), grouped(l.Cells))
	case t.made > float64(l.Labels):
		return fmt.Errorf("the query builds labels and remarks of up to %s bytes, and the limit is %s: refer to fewer or shorter labels in label_replace and label_join, or ask for fewer series", rough(t.made), grouped(l.Labels))
	case t.matched > float64(l.Work):
		return fmt.Errorf("the regular expressions of label_replace take up to %s steps for these series, and the limit is %s: simplify them, or ask for fewer series", rough(t.matched), grouped(l.Work))
	}
	return nil
}

// rough formats a large number for people.
func rough(n float64) string {
	if n < 1e15 {
		return grouped(int(n))
	}
	return fmt.Sprintf("%.0e", n)
}
