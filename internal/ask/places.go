package ask

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/berth-gpu/berth/internal/series"
)

// places are how many questions are answered at a time: a few of each asker, and
// some more of all. Others wait, in the order in which they came.
type places struct {
	all  chan struct{}
	each int

	mu sync.Mutex // guards what follows
	by map[string]*line
}

// line is the questions of one asker.
type line struct {
	turns chan struct{}
	here  int // questions that wait or are answered; guarded by places.mu
}

func makePlaces(all, each int) *places {
	return &places{all: make(chan struct{}, all), each: max(each, 1), by: map[string]*line{}}
}

// enter waits for a place. The caller calls leave when the question is answered.
// The daemon itself needs none.
func (p *places) enter(ctx context.Context, by string) (leave func(), err error) {
	if by == "" {
		return func() {}, nil
	}
	own := p.join(by)
	for i, turns := range []chan struct{}{own.turns, p.all} {
		select {
		case turns <- struct{}{}:
		case <-ctx.Done():
			if i == 1 {
				<-own.turns
			}
			p.part(by, own)
			return nil, p.full(ctx)
		}
	}
	return func() {
		<-p.all
		<-own.turns
		p.part(by, own)
	}, nil
}

// full is the error of a question that had no place in time.
func (p *places) full(ctx context.Context) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	return &series.Error{Fault: series.TimedOut, Text: fmt.Sprintf("the query had no turn in time: %d queries are answered at once, %d of one user: ask again, with fewer queries at a time", cap(p.all), p.each)}
}

func (p *places) join(by string) *line {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.by[by]
	if own == nil {
		own = &line{turns: make(chan struct{}, p.each)}
		p.by[by] = own
	}
	own.here++
	return own
}

// part forgets an asker who asks nothing any more.
func (p *places) part(by string, own *line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if own.here--; own.here == 0 {
		delete(p.by, by)
	}
}
