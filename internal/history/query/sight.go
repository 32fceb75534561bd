package query

import (
	"context"
	"errors"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/berth-gpu/berth/internal/history/series"
)

// nameless matches the series that name nobody. Nameless askers cannot see any others.
func nameless() []*labels.Matcher {
	telling := series.Telling()
	list := make([]*labels.Matcher, len(telling))
	for i, name := range telling {
		list[i] = labels.MustNewMatcher(labels.MatchEqual, name, "")
	}
	return list
}

// sight is the store as one question sees it. It counts the series that the question
// reads, and their cost.
type sight struct {
	store  storage.Queryable
	hide   []*labels.Matcher
	limits *Limits
	cost   cost

	mu   sync.Mutex // guards what follows
	read int
	tally
}

// sight returns the store as an asker sees it, for a question with a cost.
func (e *Engine) sight(o series.Options, c cost) *sight {
	s := &sight{store: e.store, limits: &e.limits, cost: c, tally: c.before()}
	if o.Nameless {
		s.hide = nameless()
	}
	return s
}

// Querier implements storage.Queryable.
func (s *sight) Querier(from, to int64) (storage.Querier, error) {
	q, err := s.store.Querier(from, to)
	if err != nil {
		return nil, unreadable(err)
	}
	return &querier{q, s}, nil
}

// unreadable returns the error for a store that failed, or nil if err is nil.
func unreadable(err error) error {
	if known := (*series.Error)(nil); err == nil || errors.As(err, &known) {
		return err
	}
	return &series.Error{Fault: series.Internal, Text: "the store of the past could not be read: " + err.Error()}
}

// only adds the matchers that hide series to those of a question.
func (s *sight) only(matchers []*labels.Matcher) []*labels.Matcher {
	return append(matchers[:len(matchers):len(matchers)], s.hide...)
}

// querier reads the store over one time.
type querier struct {
	storage.Querier
	sight *sight
}

func (q *querier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	return &counted{SeriesSet: q.Querier.Select(ctx, sorted, hints, q.sight.only(matchers)...), sight: q.sight}
}

func (q *querier) LabelValues(ctx context.Context, name string, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	list, remarks, err := q.Querier.LabelValues(ctx, name, hints, q.sight.only(matchers)...)
	return list, remarks, unreadable(err)
}

func (q *querier) LabelNames(ctx context.Context, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	list, remarks, err := q.Querier.LabelNames(ctx, hints, q.sight.only(matchers)...)
	return list, remarks, unreadable(err)
}

// counted ends a set of series when the question has read too many.
type counted struct {
	storage.SeriesSet
	sight *sight
	over  error
}

func (c *counted) Next() bool {
	if c.over != nil || !c.SeriesSet.Next() {
		return false
	}
	c.over = c.sight.count(c.SeriesSet.At())
	return c.over == nil
}

// count counts a series that the question has read. It returns an error if that is one
// too many.
func (s *sight) count(one storage.Series) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read++; s.read > s.limits.Series {
		return &series.Error{Fault: series.Execution, Text: "the query reads more than " + grouped(s.limits.Series) + " series, which is the limit: name the metric and more labels, or ask for a shorter time"}
	}
	bytes := uint64(0)
	if s.cost.builds {
		bytes = one.Labels().ByteSize()
	}
	s.add(&s.cost, float64(bytes))
	if err := s.limits.beyond(s.cost, s.tally); err != nil {
		return &series.Error{Fault: series.Execution, Text: err.Error()}
	}
	return nil
}

func (c *counted) Err() error {
	if c.over != nil {
		return c.over
	}
	return unreadable(c.SeriesSet.Err())
}
