package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

const (
	queueUsers    = 48    // how many users wait
	firstOfQueue  = 60000 // the uid of the first of them
	queuePerUser  = 256   // how many requests of one user may wait
	queueIdleCPU  = 0.25  // the most of a processor that the daemon may use while nobody calls
	queueCallCPU  = 10 * time.Millisecond
	queueLargest  = 140_000
	queueSmallest = 5_000
)

// longQueue fills the queue with as many requests as 48 users may have in it, each
// for less memory than the one before: most of them would fit, and would delay
// one ahead. It measures what the daemon uses while nobody calls, and what an
// acquire and a release of root cost.
func longQueue(ctx context.Context, a *arena) (verdict, error) {
	var v verdict
	d, err := a.serve(ctx, setup{config: "gpu: {max_pipelines: 1000}"})
	if err != nil {
		return v, err
	}
	for device := range 2 {
		for id, memory := range map[string]int{"stays": 50_000, "ends": 90_000} {
			body := fmt.Sprintf(`{"id":"%s-%d","memory_mb":%d,"slots":0,"gpu":"%d","binding":"named"}`, id, device, memory, device)
			if err := d.root(ctx, "POST", "/api/leases", body, nil); err != nil {
				return v, err
			}
		}
	}
	users := a.size(6, queueUsers)
	began := time.Now()
	for n := range users {
		asked := askQueue{Door: d.socket, First: n * queuePerUser, All: users * queuePerUser}
		if _, err := a.act(ctx, firstOfQueue+n, 0, "queue", asked, nil); err != nil {
			return v, err
		}
	}
	full := users * queuePerUser
	if err := d.untilWaiting(ctx, full); err != nil {
		return v, err
	}
	filled := time.Since(began)
	for device := range 2 { // now most requests would fit
		if err := d.root(ctx, "DELETE", fmt.Sprintf("/api/leases/ends-%d", device), "", nil); err != nil {
			return v, err
		}
	}
	idle, err := d.idle(time.Duration(a.size(2, 5)) * time.Second)
	if err != nil {
		return v, err
	}
	cost, times, err := d.rootLeases(ctx, a.size(50, 300))
	if err != nil {
		return v, err
	}
	v.noting("%d waited after %v; %.1f %% of a processor while nobody called; root's acquire and release: %v of a processor, p50 %v, p99 %v",
		full, filled.Round(100*time.Millisecond), 100*idle, cost.Round(10*time.Microsecond), times.p50, times.p99)
	if idle > queueIdleCPU {
		v.gain("the daemon uses %.0f %% of a processor while %d requests wait and nobody calls", 100*idle, full)
	}
	if cost > queueCallCPU {
		v.gain("an acquire and a release of root take %v of a processor while %d requests wait: p50 %v, p99 %v", cost, full, times.p50, times.p99)
	}
	return v, nil
}

// askQueue asks for the requests of one user in a queue in which sizes fall.
type askQueue struct {
	Door  door
	First int // the number of the first one
	All   int // how many requests all users have
}

// fillQueue asks for leases and waits for them. It says so when it has asked for
// the last one.
func fillQueue(ctx context.Context, in json.RawMessage, say func(any)) error {
	var asked askQueue
	if err := json.Unmarshal(in, &asked); err != nil {
		return err
	}
	c, err := asked.Door.berth()
	if err != nil {
		return err
	}
	defer c.Close()
	var all sync.WaitGroup
	for n := asked.First; n < asked.First+queuePerUser; n++ {
		memory := gpu.MiB(queueLargest - n*(queueLargest-queueSmallest)/asked.All)
		all.Go(func() {
			_, _ = c.Acquire(ctx, api.LeaseRequest{Memory: memory, Slots: gpu.Some(0), TTL: gpu.Some(600.0), Timeout: gpu.Some(600.0)})
		})
		pause(ctx, time.Millisecond) // so that they come in this order
	}
	say("waiting")
	all.Wait()
	<-ctx.Done()
	return nil
}

// untilWaiting returns when so many requests wait.
func (d *daemon) untilWaiting(ctx context.Context, want int) error {
	waiting := 0
	for began := time.Now(); waiting < want; time.Sleep(200 * time.Millisecond) {
		if time.Since(began) > 2*time.Minute {
			return fmt.Errorf("only %d of %d requests wait", waiting, want)
		}
		var metrics string
		if err := d.rootWithin(ctx, time.Minute, "GET", "/metrics", "", &metrics); err != nil {
			return err
		}
		_, length, _ := strings.Cut(metrics, "\nberth_queue_length ")
		_, _ = fmt.Sscan(length, &waiting)
	}
	return nil
}

// idle returns the part of a processor that the daemon uses while nobody calls.
func (d *daemon) idle(length time.Duration) (float64, error) {
	before, err := d.cpu()
	if err != nil {
		return 0, err
	}
	time.Sleep(length)
	after, err := d.cpu()
	return (after - before).Seconds() / length.Seconds(), err
}

// rootLeases acquires and releases leases as root, ahead of everybody who waits.
// It returns what a pair costs the daemon, and how long each took.
func (d *daemon) rootLeases(ctx context.Context, n int) (time.Duration, summary, error) {
	c, err := d.socket.berth()
	if err != nil {
		return 0, summary{}, err
	}
	defer c.Close()
	before, err := d.cpu()
	if err != nil {
		return 0, summary{}, err
	}
	var got honest
	for range n {
		request := tiny()
		request.TTL, request.Priority = gpu.Some(60.0), gpu.Some(1)
		began := time.Now()
		l, err := c.Acquire(ctx, request)
		if err == nil {
			_, err = c.Release(ctx, l.ID, l.Fence)
		}
		if err != nil {
			return 0, summary{}, fmt.Errorf("acquire and release as root: %w", err)
		}
		got.Times = append(got.Times, time.Since(began))
	}
	after, err := d.cpu()
	if err != nil {
		return 0, summary{}, err
	}
	times, err := got.summary()
	return (after - before) / time.Duration(n), times, err
}

// cpu returns the processor time that the daemon has used.
func (d *daemon) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.pid()))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/PID/stat of the daemon has %d fields", len(fields))
	}
	const tick = 10 * time.Millisecond // the kernel counts for user space in hundredths
	var sum time.Duration
	for _, field := range fields[11:13] { // in user mode, and in the kernel
		n, err := strconv.Atoi(string(field))
		if err != nil {
			return 0, fmt.Errorf("read /proc/PID/stat of the daemon: %w", err)
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}
