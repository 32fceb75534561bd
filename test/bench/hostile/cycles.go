package main

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// askCycles asks for a number of leases to acquire and release.
type askCycles struct {
	Door  door
	Count int
	Side  int
}

// cycleLeases acquires and releases leases over lease streams, and says how many.
func cycleLeases(ctx context.Context, in json.RawMessage, say func(any)) error {
	var asked askCycles
	if err := json.Unmarshal(in, &asked); err != nil {
		return err
	}
	c, err := asked.Door.berth()
	if err != nil {
		return err
	}
	defer c.Close()
	var all sync.WaitGroup
	done := make([]int, asked.Side)
	for side := range asked.Side {
		all.Go(func() {
			for range asked.Count / asked.Side {
				l, err := c.Acquire(ctx, tiny())
				if err != nil {
					continue
				}
				if _, err := c.Release(ctx, l.ID, l.Fence); err == nil {
					done[side]++
				}
			}
		})
	}
	all.Wait()
	sum := 0
	for _, n := range done {
		sum += n
	}
	say(sum)
	return nil
}

// tiny returns a request that the daemon nearly always grants at once.
func tiny() api.LeaseRequest {
	return api.LeaseRequest{Memory: 1, Slots: gpu.Some(0), Timeout: gpu.Some(0.0)}
}
