package mover

import (
	"sync"
	"testing"
)

// Those who ask while work is being done share the next piece of it: nobody gets the result
// of work that began before it asked.
func TestShared(t *testing.T) {
	var s shared[int]
	done := 0
	work := func() int { done++; return done }
	for n := range 3 { // one after the other
		if got := s.do(work); got != n+1 {
			t.Errorf("the result is %d, want %d", got, n+1)
		}
	}
	var group sync.WaitGroup
	s.mu.Lock() // another piece is being done
	s.begun.Add(1)
	const many = 50
	asked, results := make(chan struct{}), make([]int, many)
	for i := range many {
		group.Go(func() {
			before := s.begun.Load()
			asked <- struct{}{}
			results[i] = s.share(before, work)
		})
	}
	for range many {
		<-asked
	}
	s.mu.Unlock()
	group.Wait()
	for _, got := range results {
		if got != 4 || done != 4 {
			t.Fatalf("%d asked together, work was done %d times, and one got the result %d", many, done, got)
		}
	}
}
