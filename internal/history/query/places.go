package query

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/semaphore"

	"github.com/berth-gpu/berth/internal/history/series"
)

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
