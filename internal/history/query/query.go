// Package query answers questions in PromQL with the engine of Prometheus.
//
// It reads the store that it is given, holds every question to the limits of this
// package, and hides every series that names somebody from nameless askers.
package query

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"golang.org/x/sync/semaphore"

	"github.com/berth-gpu/berth/internal/history/series"
)

// Version is the version of Prometheus whose language and engine the package uses.
// Grafana asks for it to learn which functions there are.
const Version = "3.15.0"

// Engine answers questions about one store.
type Engine struct {
	limits  Limits
	store   storage.Queryable
	parser  parser.Parser
	engine  *promql.Engine
	places  places
	answers *semaphore.Weighted // points of the large answers that are being sent
}

// New returns an engine that reads a store. Fields of limits that are zero get
// their values from Default.
func New(store storage.Queryable, limits Limits) *Engine {
	limits = limits.orDefault()
	language := parser.NewParser(parser.Options{})
	return &Engine{
		limits: limits, store: store, parser: language,
		engine: promql.NewEngine(promql.EngineOpts{
			MaxSamples: limits.Samples, Timeout: limits.Time, LookbackDelta: limits.Lookback, Parser: language,
			EnableAtModifier: true, EnableNegativeOffset: true,
			NoStepSubqueryIntervalFn: func(int64) int64 { return subqueryStep.Milliseconds() },
		}),
		places: make(places, limits.AtOnce), answers: makeRoom(limits.Samples),
	}
}

// Instant answers a question about one moment.
func (e *Engine) Instant(ctx context.Context, expr string, at time.Time, o series.Options) (series.Answer, error) {
	c, err := e.check(expr, at, at, 0)
	if err != nil {
		return series.Answer{}, err
	}
	return e.answer(ctx, expr, o, c, func(ctx context.Context, from storage.Queryable, opts promql.QueryOpts) (promql.Query, error) {
		return e.engine.NewInstantQuery(ctx, from, opts, expr, at)
	})
}

// Range answers a question about every step from one moment to another.
func (e *Engine) Range(ctx context.Context, expr string, from, to time.Time, step time.Duration, o series.Options) (series.Answer, error) {
	if err := e.limits.steps(from, to, step); err != nil {
		return series.Answer{}, err
	}
	c, err := e.check(expr, from, to, step)
	if err != nil {
		return series.Answer{}, err
	}
	return e.answer(ctx, expr, o, c, func(ctx context.Context, store storage.Queryable, opts promql.QueryOpts) (promql.Query, error) {
		return e.engine.NewRangeQuery(ctx, store, opts, expr, from, to, step)
	})
}

// answer waits for a place, asks the engine, and translates the result.
func (e *Engine) answer(ctx context.Context, expr string, o series.Options, c cost, ask func(context.Context, storage.Queryable, promql.QueryOpts) (promql.Query, error)) (series.Answer, error) {
	ctx, leave, err := e.begin(ctx, o)
	if err != nil {
		return series.Answer{}, err
	}
	defer leave()
	q, err := ask(ctx, e.sight(o, c), promql.NewPrometheusQueryOpts(false, o.Lookback))
	if err != nil {
		return series.Answer{}, bad("%v", err)
	}
	defer q.Close()
	result := q.Exec(ctx)
	if result.Err != nil {
		return series.Answer{}, e.fault(ctx, o, result.Err)
	}
	release := func() {}
	if o.Waits {
		if release, err = e.room(ctx, points(result)); err != nil {
			return series.Answer{}, e.fault(ctx, o, err)
		}
	}
	answer := translate(result, expr, o.Limit)
	answer.Release = release
	return answer, nil
}

// begin waits for a place for a question, and returns a context that ends when the time
// of the question is over. The caller calls leave when it is answered.
func (e *Engine) begin(ctx context.Context, o series.Options) (_ context.Context, leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, e.time(o))
	if !o.Waits {
		return ctx, cancel, nil
	}
	left, err := e.places.enter(ctx)
	if err != nil {
		err = e.fault(ctx, o, err)
		cancel()
		return nil, nil, err
	}
	return ctx, func() { left(); cancel() }, nil
}

// time returns how long a question may take.
func (e *Engine) time(o series.Options) time.Duration {
	if o.Timeout > 0 {
		return min(e.limits.Time, o.Timeout)
	}
	return e.limits.Time
}

// fault returns why the engine or the store has no answer.
func (e *Engine) fault(ctx context.Context, o series.Options, err error) error {
	var known *series.Error
	var many promql.ErrTooManySamples
	switch {
	case errors.As(err, &known) && (known.Fault != series.Internal || ctx.Err() == nil):
		return known
	case errors.As(err, &many):
		return &series.Error{Fault: series.Execution, Text: fmt.Sprintf("the query holds more than %s samples in memory at once, which is the limit: ask for fewer series, a shorter time or a longer step", grouped(e.limits.Samples))}
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &series.Error{Fault: series.TimedOut, Text: fmt.Sprintf("the query took longer than it may (%v): ask for fewer series, a shorter time or a longer step", e.time(o))}
	case ctx.Err() != nil:
		return &series.Error{Fault: series.Canceled, Text: "the caller left before the query was answered"}
	}
	return &series.Error{Fault: series.Execution, Text: err.Error()}
}

// bad returns the error for an invalid question.
func bad(format string, args ...any) *series.Error {
	return &series.Error{Fault: series.BadData, Text: fmt.Sprintf(format, args...)}
}
