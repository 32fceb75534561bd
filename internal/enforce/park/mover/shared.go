package mover

import (
	"sync"
	"sync/atomic"
)

// shared is work that many ask for at a time: each gets the result of one that began after
// it asked, so that it is done a few times for all of them.
type shared[T any] struct {
	begun atomic.Uint64

	mu     sync.Mutex // held during the work; guards result
	result T
}

func (s *shared[T]) do(work func() T) T { return s.share(s.begun.Load(), work) }

// share returns the result of work that began when so many others had begun, or later.
func (s *shared[T]) share(begun uint64, work func() T) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun.Load() == begun {
		s.begun.Add(1)
		s.result = work()
	}
	return s.result
}
