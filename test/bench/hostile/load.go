package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
)

// askLoad asks a process to do everything at full speed. Number is the number of
// the process.
type askLoad struct {
	Doors  []door
	Number int
	Kinds  []string // what to do; empty: everything
}

func (l askLoad) does(kind string) bool { return len(l.Kinds) == 0 || slices.Contains(l.Kinds, kind) }

// loadEverything does everything that a user without rights can do, as fast as
// it can: leases that it keeps and that it gives back, requests that wait, streams,
// plans, batches, measurements, queries about the past and half-sent requests. It soon has as many of each
// as one user may have.
func loadEverything(ctx context.Context, in json.RawMessage, say func(any)) error {
	var asked askLoad
	if err := json.Unmarshal(in, &asked); err != nil {
		return err
	}
	door := asked.Doors[asked.Number%len(asked.Doors)]
	c, err := door.berth()
	if err != nil {
		return err
	}
	defer c.Close()
	if asked.does("holds") {
		if err := asked.hold(ctx); err != nil {
			return err
		}
	}
	var all sync.WaitGroup
	again := func(kind string, do func(n int)) {
		if !asked.does(kind) {
			return
		}
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				do(n)
			}
		})
	}
	for range 4 {
		again("leases", func(int) { lease(ctx, c) })
	}
	for range 1000 { // on one stream, which takes 1024
		again("waits", func(int) { wait(ctx, c) })
	}
	for range 16 {
		again("events", func(int) { follow(ctx, door) })
	}
	web := door.client(5 * time.Second)
	name := strings.Repeat("n", 100)
	for _, each := range []call{
		{Method: "POST", Path: "/api/plans", Body: `{"name":"` + name + `","pipelines":[{"name":"p","count":50,"steps":[{"name":"s","input":"numpy","output":"cupy","memory_mb":10}]}]}`},
		{Method: "PUT", Path: fmt.Sprintf("/api/batches/%d-$N", asked.Number), Body: batchBody(fmt.Sprintf("%d-$N", asked.Number), "failed", "o", name)},
		{Method: "POST", Path: "/api/measurements", Body: fmt.Sprintf(`{"name":"%d-$N","memory_mb":10,"seconds":1}`, asked.Number)},
		{Method: "GET", Path: "/api/leases"},
		{Method: "GET", Path: "/metrics"}, {Method: "GET", Path: `/api/v1/query?query=sum(max_over_time({__name__=~".%2B"}[1h]))`},
		{Method: "GET", Path: `/api/v1/query?query=max_over_time(max_over_time(sum({__name__=~"(.*a.*)*_.%2B"})[2m:1s])[1h:1s])`},
		{Method: "GET", Path: "/api/events?follow=false"},
		{Method: "POST", Path: "/api/leases", Body: `{"memory_mb":143000,"gpus":4,"slots":0,"timeout_seconds":0.01}`},
	} {
		again("calls", func(n int) {
			c := each
			c.Path, c.Body = fill(c.Path, n), fill(c.Body, n)
			if _, err := c.make(ctx, door, web); err != nil {
				pause(ctx, time.Millisecond)
			}
		})
	}
	again("halves", func(int) { halves(ctx, door) })
	say("at full speed")
	all.Wait()
	<-ctx.Done()
	return nil
}

// lease acquires and releases a lease.
func lease(ctx context.Context, c *client.Client) {
	request := tiny()
	request.TTL = gpu.Some(10.0)
	l, err := c.Acquire(ctx, request)
	if err != nil {
		pause(ctx, time.Millisecond)
		return
	}
	_, _ = c.Release(ctx, l.ID, l.Fence) // the next round tries again
}

// hold takes leases until the user has as many as one may have, and keeps them. The
// first process does so before all else: no lease goes past requests that wait.
func (l askLoad) hold(ctx context.Context) error {
	at := slices.IndexFunc(l.Doors, func(d door) bool { return d.Network == "unix" }) // where the daemon knows the process
	if l.Number > 0 || at < 0 {
		return nil
	}
	c, err := l.Doors[at].berth()
	if err != nil {
		return err
	}
	defer c.Close()
	for request := (api.LeaseRequest{Memory: 1, Slots: gpu.Some(0), Timeout: gpu.Some(0.0), Binding: "process"}); err == nil; {
		_, err = c.Acquire(ctx, request)
	}
	return ctx.Err()
}

// wait asks for more memory than is free, and waits for a second.
func wait(ctx context.Context, c *client.Client) {
	_, err := c.Acquire(ctx, api.LeaseRequest{GPUs: 4, Memory: 100_000, Slots: gpu.Some(0), TTL: gpu.Some(1.0), Timeout: gpu.Some(1.0)})
	if err != nil && ctx.Err() == nil {
		pause(ctx, 10*time.Millisecond)
	}
}

// follow reads an event stream to its end.
func follow(ctx context.Context, d door) {
	conn, err := d.dial(ctx)
	if err != nil {
		pause(ctx, 10*time.Millisecond)
		return
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err := conn.Write([]byte("GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")); err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, conn)
	pause(ctx, 10*time.Millisecond)
}

// halves opens requests, never ends them, and keeps them for a second.
func halves(ctx context.Context, d door) {
	h := holder{door: d}
	defer h.close()
	h.open(ctx, 100, "POST /api/leases HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nx", "")
	pause(ctx, time.Second)
}
