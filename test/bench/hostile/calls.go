package main

import (
	"context"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
)

// askCalls asks for calls. In paths and bodies $N is the number of the call and
// $PID the process that makes it.
type askCalls struct {
	Door  door
	Calls []call
	Side  int  // how many calls at a time; 0: one
	Brief bool // keep only the last answer to each call
}

// makeCalls makes calls one after the other and says the answers.
func makeCalls(ctx context.Context, in json.RawMessage, say func(any)) error {
	var asked askCalls
	if err := json.Unmarshal(in, &asked); err != nil {
		return err
	}
	web := asked.Door.client(10 * time.Second)
	replies := []reply{}
	var mu sync.Mutex
	for _, each := range asked.Calls {
		var all sync.WaitGroup
		turn := make(chan struct{}, max(asked.Side, 1))
		for n := range max(each.Times, 1) {
			turn <- struct{}{}
			all.Go(func() {
				defer func() { <-turn }()
				c := each
				c.Path = fill(c.Path, n)
				c.Body = fill(c.Body, n)
				c.Token = fill(c.Token, n)
				got, _ := c.make(ctx, asked.Door, web) // a call that failed has status 0
				mu.Lock()
				defer mu.Unlock()
				if !asked.Brief || n == max(each.Times, 1)-1 {
					replies = append(replies, got)
				}
			})
		}
		all.Wait()
	}
	say(replies)
	<-ctx.Done()
	return nil
}

func fill(text string, n int) string {
	if !strings.Contains(text, "$") {
		return text
	}
	return strings.NewReplacer("$N", strconv.Itoa(n), "$PID", strconv.Itoa(os.Getpid())).Replace(text)
}

// calls makes calls as a user, from a process of its own, and returns the answers.
func (a *arena) calls(ctx context.Context, uid int, d door, calls ...call) ([]reply, error) {
	var got []reply
	err := a.do(ctx, uid, 0, "calls", askCalls{Door: d, Calls: calls}, &got)
	return got, err
}

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

// berth returns a Go client for a door.
func (d door) berth() (*client.Client, error) {
	if d.Network == "unix" {
		return client.New(client.Options{Socket: d.Address})
	}
	return client.New(client.Options{URL: "http://" + d.Address})
}

// tiny returns a request that the daemon nearly always grants at once.
func tiny() api.LeaseRequest {
	return api.LeaseRequest{Memory: 1, Slots: gpu.Some(0), Timeout: gpu.Some(0.0)}
}
