package past

import (
	"cmp"
	"context"
	"errors"
	"math"
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
	before := max(lookBefore, 2*p.limits.Load().Every).Milliseconds()
	q := &querier{p: p, from: from, to: to, before: before}
	from, to = max(from, math.MinInt64+before)-before, min(to, math.MaxInt64-1)
	next := from
	for _, hole := range p.recent.holes(from, to) {
		q.samples = append(q.samples, q.open(p.recent.cut(next, hole[0]-1), p.recent)...)
		// The recent store may have samples here that came late.
		q.samples = append(q.samples, q.open(p.long.cut(hole[0], hole[1]), p.recent, p.long)...)
		next = hole[1] + 1
	}
	q.samples = append(q.samples, q.open(p.recent.cut(next, to), p.recent)...)
	q.halves = q.open(p.long.cut(from, to), p.long)
	if q.failed != nil {
		p.suspect()
		return nil, errors.Join(q.failed, q.Close())
	}
	return q, nil
}

// open opens the stores for each of some pieces of time.
func (q *querier) open(times [][2]int64, stores ...*store) (list []piece) {
	for _, t := range times {
		var all []storage.Querier
		for _, s := range stores {
			one, err := s.db.Querier(t[0], t[1])
			if err != nil {
				q.failed = errors.Join(q.failed, err)
				continue
			}
			all = append(all, one)
		}
		list = append(list, piece{storage.NewMergeQuerier(all, nil, storage.ChainedSeriesMerge), t[0], t[1]})
	}
	return list
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
	p        *Past
	from, to int64 // what it was asked for
	before   int64 // how much earlier the pieces begin, for derived series, in milliseconds
	// samples are the pieces of time in order: every sample, and half-minutes where recent
	// has nothing, which is before the oldest sample and where a block was damaged.
	samples []piece
	halves  []piece // the pieces of time in order, with all half-minutes
	failed  error
	once    sync.Once
}

// Close allows the stores to be closed.
func (q *querier) Close() error {
	var err error
	q.once.Do(func() {
		for _, one := range slices.Concat(q.samples, q.halves) {
			err = errors.Join(err, one.Close())
		}
		q.p.gate.RUnlock()
	})
	return err
}

// extremes matches the names of the least and the most of half-minutes, which only the
// long store has.
var extremes = labels.MustNewMatcher(labels.MatchRegexp, labels.MetricName, ".*(?:"+leastEnding+"|"+mostEnding+")")

// Select returns the series of both stores, without doubled points, or those derived from
// them.
func (q *querier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	if hints == nil {
		hints = &storage.SelectHints{Start: q.from, End: q.to}
	}
	var set storage.SeriesSet
	err := q.p.try(func() error {
		if name := named(matchers); name >= 0 {
			if base, how := derivedOf(matchers[name].Value); how != nil && !q.stored(ctx, matchers[name], hints) {
				set = q.derive(ctx, matchers[name].Value, base, how, hints, matchers)
				return nil
			}
		}
		set = q.find(ctx, hints, matchers)
		return nil
	})
	if err != nil {
		return storage.ErrSeriesSet(err)
	}
	return &watchedSet{SeriesSet: set, p: q.p}
}

// named returns the index of the matcher that says the whole name, or -1.
func named(matchers []*labels.Matcher) int {
	return slices.IndexFunc(matchers, func(m *labels.Matcher) bool { return m.Name == labels.MetricName && m.Type == labels.MatchEqual })
}

// find returns series that are stored.
func (q *querier) find(ctx context.Context, hints *storage.SelectHints, matchers []*labels.Matcher) storage.SeriesSet {
	name := named(matchers)
	var sets []storage.SeriesSet
	if name < 0 || !isExtreme(matchers[name].Value) {
		for _, one := range q.samples {
			sets = append(sets, &pieceSet{SeriesSet: one.Select(ctx, true, one.within(hints), matchers...), to: one.to})
		}
	}
	if name < 0 || isExtreme(matchers[name].Value) {
		for _, one := range q.halves {
			sets = append(sets, &pieceSet{SeriesSet: one.Select(ctx, true, one.within(hints), append(slices.Clip(matchers), extremes)...), to: one.to})
		}
	}
	return storage.NewMergeSeriesSet(sets, hints.Limit, join)
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
	for _, one := range slices.Concat(q.samples, q.halves) {
		var list []string
		err := q.p.try(func() (err error) {
			var more annotations.Annotations
			list, more, err = ask(one)
			notes.Merge(more)
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		for _, s := range list {
			all = append(all, strings.Clone(s)) // they live no longer than the store
		}
	}
	slices.Sort(all)
	return slices.Compact(all), notes, nil
}
