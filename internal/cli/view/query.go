package view

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/term"
)

// Query shows the answer to a question in PromQL: values as a table, and values over a
// time as small graphs, each with its least, its most and its last value. It keeps the
// order of the series, because the question may have sorted them.
func Query(r api.QueryResult, to term.Screen) []string {
	var lines []string
	switch {
	case r.Type == "scalar":
		lines = []string{number(r.Point.Value)}
	case r.Type == "string":
		lines = []string{term.Clean(r.Text)}
	case len(r.Series) == 0:
		lines = []string{"Nothing matches."}
	case slices.ContainsFunc(r.Series, func(s api.QuerySeries) bool { return len(s.Points) > 1 }):
		lines = graphs(r.Series, to)
	default:
		lines = values(r.Series, to)
	}
	for _, remark := range slices.Concat(r.Warnings, r.Infos) {
		lines = append(lines, to.Hang(term.Yellow, "! ", term.Clean(remark)))
	}
	return lines
}

// values shows series with one point each. Labels that all of them share stand above.
func values(list []api.QuerySeries, to term.Screen) []string {
	same := common(list)
	t := &term.Table{Columns: []term.Column{{Title: "VALUE", Right: true}, {Title: "SERIES", Least: 20, Fold: true}}}
	for _, s := range list {
		if len(s.Points) == 1 {
			t.Add(term.Text(number(s.Points[0].Value)), term.Text(labelled(s.Labels, same)))
		}
	}
	return append(heading(same, to), t.Lines(to.Width, to.Painter)...)
}

// graphs shows series as graphs between their common least and most values.
func graphs(list []api.QuerySeries, to term.Screen) []string {
	same := common(list)
	first, last, lo, hi := bounds(list)
	step := min(steps(list), last.Sub(first)+1)
	t := &term.Table{Columns: []term.Column{
		{Title: "SERIES", Least: 12}, {Title: stamp(first, to) + " … " + stamp(last, to)}, {Title: "LEAST", Right: true}, {Title: "MOST", Right: true}, {Title: "LAST", Right: true},
	}}
	width := max(to.Width/2, term.Columns(t.Columns[1].Title))
	for _, s := range list {
		if len(s.Points) == 0 {
			continue
		}
		_, _, least, most := bounds([]api.QuerySeries{s})
		t.Add(term.Text(labelled(s.Labels, same)), term.Painted(term.Spark(columns(s.Points, first, last, step, width), lo, hi), term.Green),
			term.Text(number(least)), term.Text(number(most)), term.Text(number(s.Points[len(s.Points)-1].Value)))
	}
	return append(heading(same, to), t.Lines(to.Width, to.Painter)...)
}

// bounds returns the first and the last time of series, and their least and most
// values.
func bounds(list []api.QuerySeries) (first, last time.Time, lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, s := range list {
		for _, p := range s.Points {
			if first.IsZero() || p.Time.Before(first) {
				first = p.Time
			}
			if p.Time.After(last) {
				last = p.Time
			}
			if finite(p.Value) {
				lo, hi = min(lo, p.Value), max(hi, p.Value)
			}
		}
	}
	if lo > hi {
		lo, hi = math.NaN(), math.NaN()
	}
	return first, last, lo, hi
}

// columns returns the averages of points in equal parts of a time, with NaN where there
// are none. If there are fewer points than columns, a point is as wide as its step.
func columns(points []api.QueryPoint, first, last time.Time, step time.Duration, width int) []float64 {
	parts := min(width, int(last.Sub(first)/step)+1)
	sums, counts := make([]float64, parts), make([]float64, parts)
	for _, p := range points {
		if !finite(p.Value) {
			continue
		}
		at := min(int(float64(p.Time.Sub(first))/float64(last.Sub(first)+step)*float64(parts)), parts-1)
		sums[at] += p.Value
		counts[at]++
	}
	averages := make([]float64, width)
	for i := range averages {
		at := i * parts / width
		averages[i] = sums[at] / counts[at] // NaN if there are none
	}
	return averages
}

// steps returns the shortest time from one point to the next.
func steps(list []api.QuerySeries) time.Duration {
	shortest := time.Duration(math.MaxInt64)
	for _, s := range list {
		for i := 1; i < len(s.Points); i++ {
			if step := s.Points[i].Time.Sub(s.Points[i-1].Time); step > 0 {
				shortest = min(shortest, step)
			}
		}
	}
	return shortest
}

// common returns the labels that all series have with the same value.
func common(list []api.QuerySeries) map[string]string {
	if len(list) < 2 {
		return nil
	}
	same := maps.Clone(list[0].Labels)
	for _, s := range list[1:] {
		maps.DeleteFunc(same, func(name, value string) bool { return s.Labels[name] != value })
	}
	return same
}

// heading returns a line with the labels that all series have.
func heading(same map[string]string, to term.Screen) []string {
	if len(same) == 0 {
		return nil
	}
	return []string{to.Paint(term.Bold, term.Cut(labelled(same, nil), to.Width))}
}

// labelled writes labels as PromQL does, except those shown elsewhere.
func labelled(labels, except map[string]string) string {
	name := labels["__name__"]
	if _, shown := except["__name__"]; shown {
		name = ""
	}
	var pairs []string
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		if _, shown := except[label]; !shown && label != "__name__" {
			pairs = append(pairs, label+"="+strconv.Quote(labels[label]))
		}
	}
	if len(pairs) > 0 || name == "" {
		name += "{" + strings.Join(pairs, ", ") + "}"
	}
	return term.Clean(name)
}

// finite reports whether a value can be drawn.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// number writes a value with at most six digits; whole numbers keep all their digits.
func number(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

// stamp writes a time in the time zone of the reader.
func stamp(t time.Time, to term.Screen) string { return t.In(to.Now.Location()).Format("Jan 2 15:04") }
