package query

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/berth-gpu/berth/internal/history/series"
)

// Series returns the labels of the series that match one of the selectors and have
// samples between two times. A zero time means no border. The strings are warnings.
func (e *Engine) Series(ctx context.Context, selectors []string, from, to time.Time, o series.Options) ([]labels.Labels, []string, error) {
	list := []labels.Labels{}
	if len(selectors) == 0 {
		return nil, nil, bad("no match[] parameter provided: name at least one, such as match[]=up")
	}
	remarks, err := e.find(ctx, selectors, from, to, o, func(ctx context.Context, q storage.Querier, sets [][]*labels.Matcher) (annotations.Annotations, error) {
		hints := &storage.SelectHints{Start: first(from), End: last(to), Func: "series", Limit: over(o.Limit)}
		found := make([]storage.SeriesSet, len(sets))
		for i, matchers := range sets {
			found[i] = q.Select(ctx, len(sets) > 1, hints, matchers...)
		}
		set := found[0]
		if len(found) > 1 {
			set = storage.NewMergeSeriesSet(found, 0, storage.ChainedSeriesMerge)
		}
		remarks := set.Warnings()
		for set.Next() {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if o.Limit > 0 && len(list) == o.Limit {
				return remarks.Add(errTruncated), nil
			}
			list = append(list, set.At().Labels())
		}
		return remarks, set.Err()
	})
	if err != nil {
		return nil, nil, err
	}
	return list, remarks, nil
}

// LabelNames returns the names of the labels of all series, or of those that match
// one of the selectors.
func (e *Engine) LabelNames(ctx context.Context, selectors []string, from, to time.Time, o series.Options) ([]string, []string, error) {
	return e.gather(ctx, selectors, from, to, o, func(ctx context.Context, q storage.Querier, hints *storage.LabelHints, matchers []*labels.Matcher) ([]string, annotations.Annotations, error) {
		return q.LabelNames(ctx, hints, matchers...)
	})
}

// LabelValues returns the values of a label of all series, or of those that match
// one of the selectors.
func (e *Engine) LabelValues(ctx context.Context, name string, selectors []string, from, to time.Time, o series.Options) ([]string, []string, error) {
	if !model.UTF8Validation.IsValidLabelName(name) {
		return nil, nil, bad("invalid label name: %q", name)
	}
	return e.gather(ctx, selectors, from, to, o, func(ctx context.Context, q storage.Querier, hints *storage.LabelHints, matchers []*labels.Matcher) ([]string, annotations.Annotations, error) {
		return q.LabelValues(ctx, name, hints, matchers...)
	})
}

// gather merges the names or values that the store has for each selector.
func (e *Engine) gather(ctx context.Context, selectors []string, from, to time.Time, o series.Options, read func(context.Context, storage.Querier, *storage.LabelHints, []*labels.Matcher) ([]string, annotations.Annotations, error)) ([]string, []string, error) {
	all := map[string]bool{}
	remarks, err := e.find(ctx, selectors, from, to, o, func(ctx context.Context, q storage.Querier, sets [][]*labels.Matcher) (annotations.Annotations, error) {
		var remarks annotations.Annotations
		if len(sets) == 0 {
			sets = [][]*labels.Matcher{nil}
		}
		for _, matchers := range sets {
			found, more, err := read(ctx, q, &storage.LabelHints{Limit: over(o.Limit)}, matchers)
			if err != nil {
				return nil, err
			}
			remarks.Merge(more)
			for _, text := range found {
				all[text] = true
			}
		}
		return remarks, nil
	})
	if err != nil {
		return nil, nil, err
	}
	list := slices.AppendSeq(make([]string, 0, len(all)), maps.Keys(all))
	slices.Sort(list)
	switch {
	case o.Limit > 0 && len(list) > o.Limit:
		return list[:o.Limit], append(remarks, errTruncated.Error()), nil
	case len(list) > e.limits.Series:
		return nil, nil, &series.Error{Fault: series.Execution, Text: "the answer has more than " + grouped(e.limits.Series) + " entries, which is the limit: set limit, or select fewer series with match[]"}
	}
	return list, remarks, nil
}

// find reads the store for a question about its series.
func (e *Engine) find(ctx context.Context, selectors []string, from, to time.Time, o series.Options, read func(context.Context, storage.Querier, [][]*labels.Matcher) (annotations.Annotations, error)) ([]string, error) {
	sets, err := e.selectors(selectors)
	if err != nil {
		return nil, err
	}
	ctx, leave, err := e.begin(ctx, o)
	if err != nil {
		return nil, err
	}
	defer leave()
	q, err := e.sight(o, cost{}).Querier(first(from), last(to))
	if err != nil {
		return nil, err
	}
	defer q.Close()
	remarks, err := read(ctx, q, sets)
	if err != nil {
		return nil, e.fault(ctx, o, err)
	}
	return warnings(remarks), nil
}

// selectors reads the selectors of a question about series.
func (e *Engine) selectors(texts []string) ([][]*labels.Matcher, error) {
	if len(texts) > e.limits.Selectors {
		return nil, bad("there are %d match[] parameters, and the limit is %d: ask in several queries", len(texts), e.limits.Selectors)
	}
	if err := e.limits.text("match[]", texts...); err != nil {
		return nil, err
	}
	sets, err := e.parser.ParseMetricSelectors(texts)
	if err != nil {
		return nil, bad("invalid parameter \"match[]\": %v", err)
	}
	for _, matchers := range sets {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return m != nil && !m.Matches("") }) {
			return nil, bad("invalid parameter \"match[]\": match[] must contain at least one non-empty matcher")
		}
	}
	return sets, nil
}

// The borders of questions that have none, in milliseconds since 1970.
const (
	firstMoment = 0
	lastMoment  = 1 << 52
)

func first(t time.Time) int64 { return moment(t, firstMoment) }
func last(t time.Time) int64  { return moment(t, lastMoment) }

func moment(t time.Time, otherwise int64) int64 {
	if t.IsZero() {
		return otherwise
	}
	return min(max(t.UnixMilli(), firstMoment), lastMoment)
}

// over returns one more than a limit, so that the caller can see whether something was
// left out.
func over(limit int) int {
	if limit <= 0 {
		return 0
	}
	return limit + 1
}
