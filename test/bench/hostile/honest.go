package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// askHonest asks for leases at a modest pace.
type askHonest struct {
	Door   door
	Length time.Duration
}

// honest holds how long each pair of acquire and release took.
type honest struct {
	Times  []time.Duration
	Failed int
}

const (
	pace        = 5 * time.Millisecond
	honestLimit = 5 * time.Second // a pair that takes longer has failed
)

// measureHonest acquires and releases a lease every few milliseconds.
func measureHonest(ctx context.Context, in json.RawMessage, say func(any)) error {
	var asked askHonest
	if err := json.Unmarshal(in, &asked); err != nil {
		return err
	}
	c, err := asked.Door.berth()
	if err != nil {
		return err
	}
	defer c.Close()
	var got honest
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for end := time.Now().Add(asked.Length); time.Now().Before(end); <-tick.C {
		limited, cancel := context.WithTimeout(ctx, honestLimit)
		request := tiny()
		request.TTL = gpu.Some(60.0)
		began := time.Now()
		l, err := c.Acquire(limited, request)
		if err == nil {
			_, err = c.Release(limited, l.ID, l.Fence)
		}
		cancel()
		got.Times = append(got.Times, time.Since(began))
		if err != nil {
			got.Failed++
		}
	}
	say(got)
	return nil
}

// summary describes a measurement in a few numbers.
type summary struct {
	n, failed int
	p50, p99  time.Duration
}

func (h *honest) summary() (summary, error) {
	n := len(h.Times)
	if n == 0 {
		return summary{}, errors.New("no honest user got a lease")
	}
	slices.Sort(h.Times)
	at := func(q float64) time.Duration { return h.Times[min(int(q*float64(n)), n-1)].Round(time.Microsecond) }
	return summary{n: n, failed: h.Failed, p50: at(0.5), p99: at(0.99)}, nil
}
