package batch

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/internal/batch/outcome"
)

func outcomes(first, n, size int) []outcome.Outcome {
	out := make([]outcome.Outcome, n)
	for i := range out {
		out[i] = outcome.Outcome{Index: int64(first + i), Data: []byte(strings.Repeat("x", size))}
	}
	return out
}

// Outcomes wait for company, but not for long.
func TestSinkGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var groups []int
		var at []time.Duration
		start := time.Now()
		s := newSink(time.Second, 100, func(g []outcome.Outcome) error {
			if len(g) > 0 {
				groups = append(groups, len(g))
				at = append(at, time.Since(start))
			}
			return nil
		})
		s.put(outcomes(0, 3, 1))
		time.Sleep(500 * time.Millisecond) // within the bubble, time is not waited for
		s.put(outcomes(3, 2, 1))
		time.Sleep(10 * time.Second)
		s.put(outcomes(5, 1, 200)) // enough at once
		synctest.Wait()
		s.put(outcomes(6, 4, 1))
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]int{5, 1, 4}, groups); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]time.Duration{time.Second, 10500 * time.Millisecond, 10500 * time.Millisecond}, at); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A slow disk makes those wait who bring more, and a broken one nobody.
func TestSinkHoldsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan error)
		s := newSink(time.Second, 100, func([]outcome.Outcome) error { return <-goOn })
		s.put(outcomes(0, 1, 100)) // being written
		synctest.Wait()
		s.put(outcomes(1, 1, 100)) // gathered
		third := make(chan struct{})
		go func() {
			s.put(outcomes(2, 1, 100))
			close(third)
		}()
		synctest.Wait()
		select {
		case <-third:
			t.Error("there was room for a third group")
		default:
		}
		goOn <- nil
		<-third
		broken := errors.New("broken")
		goOn <- broken
		for i := range 10 {
			s.put(outcomes(10+i, 1, 100)) // nobody waits for a disk that is broken
		}
		if err := s.close(); !errors.Is(err, broken) {
			t.Errorf("close = %v, want %v", err, broken)
		}
	})
}
