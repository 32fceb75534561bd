package batch

import (
	"sync"
	"time"

	"github.com/berth-gpu/berth/internal/batch/outcome"
)

// sink gathers outcomes and commits them in groups, so that many share one wait
// for the disk. While it writes one group, it gathers the next. When that is
// full too, put waits.
type sink struct {
	every time.Duration
	bytes int
	write func([]outcome.Outcome) error

	mu      sync.Mutex
	space   sync.Cond
	group   []outcome.Outcome
	size    int
	closed  bool
	err     error
	arrived chan struct{} // something has arrived
	full    chan struct{} // there is enough, or no more will come
	ended   chan struct{}
}

// mostOutcomes is the most outcomes in a group, however small they are.
const mostOutcomes = 1 << 17

func newSink(every time.Duration, bytes int, write func([]outcome.Outcome) error) *sink {
	s := &sink{every: every, bytes: bytes, write: write,
		arrived: make(chan struct{}, 1), full: make(chan struct{}, 1), ended: make(chan struct{})}
	s.space.L = &s.mu
	go s.run()
	return s
}

// put hands over outcomes. After an error, put drops them: the run has failed,
// and the next one does their records again.
func (s *sink) put(outcomes []outcome.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.isFull() && s.err == nil {
		s.space.Wait()
	}
	if s.err != nil {
		return
	}
	s.group = append(s.group, outcomes...)
	for i := range outcomes {
		s.size += len(outcomes[i].Data)
	}
	wake(s.arrived)
	if s.isFull() {
		wake(s.full)
	}
}

func (s *sink) isFull() bool { return s.size >= s.bytes || len(s.group) >= mostOutcomes }

// close commits what is left and returns the first error.
func (s *sink) close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	wake(s.arrived)
	wake(s.full)
	<-s.ended
	return s.err
}

func (s *sink) run() {
	defer close(s.ended)
	var spare []outcome.Outcome
	for {
		<-s.arrived
		select {
		case <-s.full:
		case <-time.After(s.every):
		}
		s.mu.Lock()
		group := s.group
		s.group, s.size = spare[:0], 0
		closed := s.closed
		s.space.Broadcast()
		s.mu.Unlock()
		err := s.write(group)
		clear(group) // releases the outcomes
		spare = group
		s.mu.Lock()
		if err != nil && s.err == nil {
			s.err = err
			s.space.Broadcast()
		}
		failed := s.err != nil
		s.mu.Unlock()
		if closed || failed {
			return
		}
	}
}

// wake wakes the reader of a channel without waiting for it.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
