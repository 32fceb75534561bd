package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// measurement holds the times of one turn.
type measurement struct {
	took  time.Duration
	times []time.Duration // of every operation, sorted
}

func (m measurement) rate() float64 { return float64(len(m.times)) / m.took.Seconds() }

// quantile returns the quantile q of sorted times.
func quantile(times []time.Duration, q float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	return times[min(int(q*float64(len(times))), len(times)-1)]
}

// warmup is how long the clients run before operations count.
const warmup = 200 * time.Millisecond

// measure runs clients that acquire and release leases, each as fast as it gets
// answers.
func measure(ctx context.Context, c contender, clients int, each time.Duration) (measurement, error) {
	ctx, cancel := context.WithTimeout(ctx, warmup+each+20*time.Second)
	defer cancel()
	all := make([]*worker, clients)
	for i := range all {
		s, err := c.connect(ctx)
		if err != nil {
			return measurement{}, err
		}
		defer s.close()
		all[i] = &worker{session: s, number: i}
	}
	var working sync.WaitGroup
	from := time.Now().Add(warmup)
	until := from.Add(each)
	for _, one := range all {
		working.Go(func() {
			if one.err = one.work(ctx, from, until); one.err != nil {
				cancel() // the other clients need not go on
			}
		})
	}
	working.Wait()
	m := measurement{took: each}
	for _, one := range all {
		if one.err != nil && !errors.Is(one.err, context.Canceled) {
			return m, one.err
		}
		m.times = append(m.times, one.times...)
	}
	slices.Sort(m.times)
	return m, context.Cause(ctx)
}

type worker struct {
	session session
	number  int
	times   []time.Duration
	err     error
}

// work acquires and releases leases until the time is over. Only operations that
// end in time count. work releases every lease that it acquires.
func (w *worker) work(ctx context.Context, from, until time.Time) error {
	w.times = make([]time.Duration, 0, 1<<16)
	for n := 0; ; n++ {
		id := fmt.Sprintf("bench-%d-%d", w.number, n)
		begin := time.Now()
		if begin.After(until) {
			return nil
		}
		if err := w.session.acquire(ctx, id); err != nil {
			return fmt.Errorf("acquire: %w", err)
		}
		middle := time.Now()
		if err := w.session.release(ctx, id); err != nil {
			return fmt.Errorf("release: %w", err)
		}
		end := time.Now()
		if begin.After(from) && middle.Before(until) {
			w.times = append(w.times, middle.Sub(begin))
		}
		if middle.After(from) && end.Before(until) {
			w.times = append(w.times, end.Sub(middle))
		}
	}
}
