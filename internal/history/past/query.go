package past

import (
	"cmp"
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// ErrOpening means that there is nothing to read yet, or not now.
var ErrOpening = errors.New("the past is not open: berth is opening it, or the disk does not take it (see the events with code past)")

// ErrOff means that there is no past.
var ErrOff = errors.New("the past is off: past.store turns it on")

// Queryable returns the store for a query engine: half-minutes before the oldest of the
// recent samples, and every sample after. The least and the most of half-minutes exist
// for both.
func (p *Past) Queryable() storage.Queryable {
	return storage.QueryableFunc(func(from, to int64) (storage.Querier, error) {
		if !p.On() {
			return nil, ErrOff
		}
		return p.querier(from, to)
	})
}

func (p *Past) querier(from, to int64) (storage.Querier, error) {
	if !p.gate.TryRLock() {
		return nil, ErrOpening
	}
	debug.SetPanicOnFault(true) // a file may shrink while it is read
	q := &querier{p: p}
	open := func(s *store, from, to int64) storage.Querier {
		one, err := s.db.Querier(from, to)
		if err != nil {
			q.failed = errors.Join(q.failed, err)
			return storage.NoopQuerier()
		}
		return one
	}
	q.recent = open(p.recent, from, to)
	q.long = open(p.long, from, to)
	for _, hole := range p.recent.holes(from, to) {
		q.coarse = append(q.coarse, open(p.long, hole[0], hole[1]))
	}
	if q.failed != nil {
		p.suspect()
		return nil, errors.Join(q.failed, q.Close())
	}
	return q, nil
}

// Most returns an estimate of the most samples of one series between two times, in
// milliseconds: every sample of the recent time, and half-minutes before.
func (p *Past) Most(from, to int64) float64 {
	limits := p.limits.Load()
	every := max(float64(cmp.Or(limits.Every, time.Second).Milliseconds()), 1)
	border := time.Now().Add(-limits.Recent).UnixMilli()
	if p.gate.TryRLock() { // the store keeps as much as was recorded, however long ago
		border = min(border, p.recent.oldest())
		p.gate.RUnlock()
	}
	recent, before := max(to-max(from, border), 0), max(min(to, border)-from, 0)
	return float64(recent)/every + float64(before)/float64(step) + 1
}

// querier reads both stores as one. It keeps them open until it is closed.
type querier struct {
	p      *Past
	recent storage.Querier   // every sample
	coarse []storage.Querier // half-minutes where recent has nothing: before the oldest sample, and where a block was damaged
	long   storage.Querier   // all half-minutes
	failed error
	once   sync.Once
}

// parts returns the queriers that were opened.
func (q *querier) parts() []storage.Querier {
	return append([]storage.Querier{q.recent, q.long}, q.coarse...)
}

// Close allows the stores to be closed.
func (q *querier) Close() error {
	var err error
	q.once.Do(func() {
		for _, one := range q.parts() {
			err = errors.Join(err, one.Close())
		}
		q.p.gate.RUnlock()
	})
	return err
}

// extremes matches the names of the least and the most of half-minutes, which only the
// long store has.
var extremes = labels.MustNewMatcher(labels.MatchRegexp, labels.MetricName, ".*(?:"+leastEnding+"|"+mostEnding+")")

// Select returns the series of both stores, without doubled points.
func (q *querier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	name := slices.IndexFunc(matchers, func(m *labels.Matcher) bool { return m.Name == labels.MetricName && m.Type == labels.MatchEqual })
	var sets []storage.SeriesSet
	if name < 0 || !isExtreme(matchers[name].Value) {
		sets = append(sets, q.recent.Select(ctx, true, hints, matchers...))
		for _, one := range q.coarse {
			sets = append(sets, one.Select(ctx, true, hints, matchers...))
		}
	}
	if name < 0 || isExtreme(matchers[name].Value) {
		sets = append(sets, q.long.Select(ctx, true, hints, append(slices.Clip(matchers), extremes)...))
	}
	limit := 0
	if hints != nil {
		limit = hints.Limit
	}
	return watchedSet{storage.NewMergeSeriesSet(sets, limit, storage.ChainedSeriesMerge), q.p}
}

func isExtreme(name string) bool {
	return strings.HasSuffix(name, leastEnding) || strings.HasSuffix(name, mostEnding)
}

// LabelValues returns the values of a label in both stores.
func (q *querier) LabelValues(ctx context.Context, name string, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return both(q, func(one storage.Querier) ([]string, annotations.Annotations, error) {
		return one.LabelValues(ctx, name, hints, matchers...)
	})
}

// LabelNames returns the names of the labels in both stores.
func (q *querier) LabelNames(ctx context.Context, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return both(q, func(one storage.Querier) ([]string, annotations.Annotations, error) {
		return one.LabelNames(ctx, hints, matchers...)
	})
}

// both asks both stores, and returns their answers in order, without duplicates.
func both(q *querier, ask func(storage.Querier) ([]string, annotations.Annotations, error)) ([]string, annotations.Annotations, error) {
	var all []string
	var notes annotations.Annotations
	for _, one := range q.parts() {
		list, more, err := ask(one)
		if err != nil {
			q.p.suspect()
			return nil, nil, err
		}
		for _, s := range list {
			all = append(all, strings.Clone(s)) // they live no longer than the store
		}
		notes.Merge(more)
	}
	slices.Sort(all)
	return slices.Compact(all), notes, nil
}
