package query

import (
	"errors"
	"slices"

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

// translate returns the answer of the engine, with at most limit series. It copies the
// points, because the engine uses their memory again.
func translate(result *promql.Result, expr string, limit int) series.Answer {
	remarks := result.Warnings
	native, truncated := false, false
	value := result.Value
	switch v := value.(type) {
	case promql.Vector:
		kept := make(promql.Vector, 0, len(v))
		for _, s := range v {
			if native = native || s.H != nil; s.H == nil {
				kept = append(kept, s)
			}
		}
		kept, truncated = cut(kept, limit)
		value = kept
	case promql.Matrix:
		kept := make(promql.Matrix, 0, len(v))
		for _, s := range v {
			native = native || len(s.Histograms) > 0
			if len(s.Floats) > 0 {
				kept = append(kept, promql.Series{Metric: s.Metric, Floats: slices.Clone(s.Floats)})
			}
		}
		kept, truncated = cut(kept, limit)
		value = kept
	}
	if native {
		remarks = remarks.Add(errNative)
	}
	if truncated {
		remarks = remarks.Add(errTruncated)
	}
	a := series.Answer{Value: value}
	a.Warnings, a.Infos = remarks.AsStrings(expr, mostRemarks, mostRemarks)
	return a
}

// cut returns at most limit elements, and whether there are more. A limit of 0 means all.
func cut[L ~[]E, E any](list L, limit int) (L, bool) {
	if limit > 0 && len(list) > limit {
		return list[:limit], true
	}
	return list, false
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

// warnings returns remarks as texts.
func warnings(remarks annotations.Annotations) []string {
	list, _ := remarks.AsStrings("", mostRemarks, mostRemarks)
	return list
}
