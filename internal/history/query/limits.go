package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/berth-gpu/berth/internal/history/series"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Limits are the most that one question may take, so that it slows nobody down.
type Limits struct {
	Points    int           // of each series of an answer
	Samples   int           // in memory at once
	Series    int           // that a question reads
	Selectors int           // of an expression
	Length    int           // of an expression or of all selectors, in bytes
	Pattern   int           // steps of the regular expressions of an expression
	Steps     int           // of a subquery, all those of the time around it included
	Work      int           // samples that a function looks at for one series, and steps of regular expressions on labels
	Cells     int           // room for points: series times steps
	Labels    int           // bytes of labels that a question builds
	Time      time.Duration // that an answer may take, including waiting
	Lookback  time.Duration // most age of the newest sample of a series
	AtOnce    int           // questions of all askers that are answered at the same time
	// Most returns the most samples of one series that the store has between two times,
	// in milliseconds.
	Most func(from, to int64) float64
}

// Default returns the limits of the daemon.
func Default() Limits {
	return Limits{
		Points: 11_000, Samples: 1_000_000, Series: 10_000, Selectors: 64, Length: 10_000, Pattern: 5_000, Steps: 100_000,
		Work: 50_000_000, Cells: 2_000_000, Labels: 8_000_000, Time: 10 * time.Second, Lookback: 5 * time.Minute, AtOnce: 2,
		Most: func(from, to int64) float64 { return float64(to-from)/1000 + 1 }, // one a second
	}
}

// orDefault replaces zero fields by their defaults.
func (l Limits) orDefault() Limits {
	d, most := Default(), l.Most
	if most == nil {
		most = d.Most
	}
	return Limits{
		Points: cmp.Or(l.Points, d.Points), Samples: cmp.Or(l.Samples, d.Samples), Series: cmp.Or(l.Series, d.Series), Selectors: cmp.Or(l.Selectors, d.Selectors),
		Length: cmp.Or(l.Length, d.Length), Pattern: cmp.Or(l.Pattern, d.Pattern), Steps: cmp.Or(l.Steps, d.Steps), Work: cmp.Or(l.Work, d.Work),
		Cells: cmp.Or(l.Cells, d.Cells), Labels: cmp.Or(l.Labels, d.Labels), Time: cmp.Or(l.Time, d.Time), Lookback: cmp.Or(l.Lookback, d.Lookback),
		AtOnce: cmp.Or(l.AtOnce, d.AtOnce), Most: most,
	}
}

// steps refuses a range with too many steps.
func (l Limits) steps(from, to time.Time, step time.Duration) error {
	switch {
	case step < time.Millisecond:
		return bad("the step must be a millisecond or more; it is %v", step)
	case to.Before(from):
		return bad("the end must not be before the start")
	}
	whole := to.UnixMilli() - from.UnixMilli() // to.Sub(from) saturates after 292 years
	if whole/step.Milliseconds() > int64(l.Points) {
		return bad("exceeded maximum resolution of %s points per timeseries: a step of %v or more is within it", grouped(l.Points), roundUp(time.Duration(whole/int64(l.Points))*time.Millisecond))
	}
	return nil
}

// roundUp rounds up to whole seconds, or to milliseconds below one second.
func roundUp(d time.Duration) time.Duration {
	unit := time.Second
	if d < time.Second {
		unit = time.Millisecond
	}
	return d.Truncate(unit) + unit
}

// grouped formats a number with commas.
func grouped(n int) string { return words.Thousands(int64(n)) }

// places limits how many questions are answered at the same time. Others wait, in the
// order in which they came. Each has first waited among the questions of the same asker.
type places chan struct{}

// enter waits for a place. The caller calls leave when the question is answered.
func (p places) enter(ctx context.Context) (leave func(), err error) {
	select {
	case p <- struct{}{}:
		return func() { <-p }, nil
	case <-ctx.Done():
	}
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, ctx.Err()
	}
	return nil, &series.Error{Fault: series.TimedOut, Text: fmt.Sprintf("the query had no turn in time: %d queries are answered at once: ask again, with fewer queries at a time", cap(p))}
}

// Answers stay in memory until they are sent, and a caller may read slowly. Large
// ones wait for room before they are made, while the question still has its place.
const (
	largeAnswer = 10_000 // points
	answersRoom = 3      // times the largest answer
)

// room waits for the room of an answer with this many points. The asker releases it.
func (e *Engine) room(ctx context.Context, points int) (release func(), err error) {
	if points < largeAnswer {
		return func() {}, nil
	}
	if err := e.answers.Acquire(ctx, int64(points)); err != nil {
		return nil, err
	}
	return func() { e.answers.Release(int64(points)) }, nil
}

func makeRoom(samples int) *semaphore.Weighted {
	return semaphore.NewWeighted(int64(answersRoom * samples))
}
