package query

import (
	"errors"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/berth-gpu/berth/internal/history/series"
)

// The texts that an answer may carry besides the remarks of the engine.
var (
	errTruncated = errors.New("results truncated due to limit")
	errNative    = errors.New("native histograms were left out of the answer: berth stores none, and shows none")
)

// mostRemarks is the most warnings, and the most infos, that an answer carries.
const mostRemarks = 10

// translate returns the answer of the engine, with at most limit series.
func translate(result *promql.Result, expr string, limit int) series.Answer {
	var a series.Answer
	remarks := result.Warnings
	native := false
	switch v := result.Value.(type) {
	case promql.Vector:
		a.Shape = series.Vector
		a.Series = make([]series.Series, 0, len(v))
		for _, s := range v {
			if s.H != nil {
				native = true
				continue
			}
			a.Series = append(a.Series, series.Series{Labels: labelsOf(s.Metric), Points: []series.Point{{T: s.T, V: s.F}}})
		}
	case promql.Matrix:
		a.Shape = series.Matrix
		a.Series = make([]series.Series, 0, len(v))
		for _, s := range v {
			native = native || len(s.Histograms) > 0
			if len(s.Floats) == 0 {
				continue
			}
			points := make([]series.Point, len(s.Floats))
			for i, p := range s.Floats {
				points[i] = series.Point{T: p.T, V: p.F}
			}
			a.Series = append(a.Series, series.Series{Labels: labelsOf(s.Metric), Points: points})
		}
	case promql.Scalar:
		a.Shape, a.Point = series.Scalar, series.Point{T: v.T, V: v.V}
	case promql.String:
		a.Shape, a.Point, a.Text = series.Text, series.Point{T: v.T}, v.V
	}
	if native {
		remarks = remarks.Add(errNative)
	}
	if limit > 0 && len(a.Series) > limit {
		a.Series = a.Series[:limit]
		remarks = remarks.Add(errTruncated)
	}
	a.Warnings, a.Infos = remarks.AsStrings(expr, mostRemarks, mostRemarks)
	return a
}

// points returns how many points an answer of the engine has.
func points(result *promql.Result) int {
	switch v := result.Value.(type) {
	case promql.Vector:
		return len(v)
	case promql.Matrix:
		return v.TotalSamples()
	}
	return 1
}

func labelsOf(from labels.Labels) series.Labels {
	list := make(series.Labels, 0, from.Len())
	from.Range(func(l labels.Label) { list = append(list, series.Label{Name: l.Name, Value: l.Value}) })
	return list
}

// warnings returns remarks as texts.
func warnings(remarks annotations.Annotations) []string {
	list, _ := remarks.AsStrings("", mostRemarks, mostRemarks)
	return list
}
