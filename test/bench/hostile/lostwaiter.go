package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-gpu/berth/api"
)

// lostWaiter withdraws requests that wait, of the own jobs and of programs, and asks for them
// again under the same id at once, while renewals keep the ledger writing.
func lostWaiter(ctx context.Context, a *arena) (v verdict, err error) {
	d, err := a.serve(ctx, setup{config: "gpu: {max_pipelines: 1000}"})
	if err != nil {
		return v, err
	}
	// The first device has no room, so that requests for it wait.
	if err := d.root(ctx, "POST", "/api/leases", `{"id":"room","all_memory":true,"slots":0,"gpu":"0","binding":"named"}`, nil); err != nil {
		return v, err
	}
	quiet, err := d.besideLoad(ctx, 1)
	if err != nil {
		return v, err
	}
	length := a.lasting(2*time.Second, time.Minute)
	var got tries
	played := make(chan error, 1)
	go func() { played <- a.do(ctx, attacker, 0, "waiters", askWaiters{d.socket, length}, &got) }()
	loud, err := d.beside(ctx, length, 0, "", nil)
	if err := errors.Join(err, <-played); err != nil {
		return v, err
	}
	v.noting("%d jobs and %d requests were withdrawn and asked for again", got.Jobs, got.Requests)
	if got.Unanswered > 0 && runs(d.pid()) {
		v.gain("%d requests were not answered", got.Unanswered)
	}
	if err := d.survives(&v, "lost waiters", quiet, loud); err != nil || !runs(d.pid()) {
		return v, err
	}
	return v, d.cancelJobs(ctx)
}

// askWaiters asks a process to withdraw requests and to ask again for a while.
type askWaiters struct {
	Door   door
	Length time.Duration
}

// tries counts the tries of such a process.
type tries struct{ Jobs, Requests, Unanswered int32 }

func loseWaiters(ctx context.Context, in json.RawMessage, say func(any)) error {
	var asked askWaiters
	if err := json.Unmarshal(in, &asked); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, asked.Length+15*time.Second)
	defer cancel()
	web := asked.Door.client(10 * time.Second)
	web.Transport.(*http.Transport).MaxIdleConnsPerHost = 64
	do := func(method, path, body string) reply {
		got, _ := call{Method: method, Path: path, Body: body}.make(ctx, asked.Door, web) // a call that failed has status 0
		return got
	}
	end := time.Now().Add(asked.Length)
	var got tries
	var all sync.WaitGroup
	again := func(try func()) {
		all.Go(func() {
			for time.Now().Before(end) {
				try()
				pause(ctx, time.Millisecond)
			}
		})
	}
	for n := range 8 {
		id := fmt.Sprint("renewed-", n)
		do("POST", "/api/leases", fmt.Sprintf(`{"id":%q,"memory_mb":1,"slots":0,"gpu":"1","ttl_seconds":600}`, id))
		again(func() { do("POST", "/api/leases/"+id+"/renew", `{"ttl_seconds":600}`) })
	}
	const waits = `{"id":%q,"memory_mb":1000,"slots":0,"gpu":"0","ttl_seconds":60,"timeout_seconds":%v}`
	// lose withdraws a request that waits, and asks for it again in the same moment.
	lose := func(id string) {
		var both sync.WaitGroup
		both.Go(func() { do("DELETE", "/api/leases/"+id, "") })
		both.Go(func() { do("POST", "/api/leases", fmt.Sprintf(waits, id, 0.05)) })
		both.Wait()
	}
	waiting := func(id string) bool {
		return eventually(time.Second, func() bool { return do("GET", "/api/leases/"+id, "").Status == http.StatusOK })
	}
	for range 3 {
		again(func() {
			var j api.Job
			text := do("POST", "/api/jobs", `{"command":["/bin/true"],"directory":"/","output":"/dev/null","lease":{"memory_mb":1000,"slots":0,"gpu":"0"}}`).Body
			if json.Unmarshal([]byte(text), &j) != nil || j.ID == "" || !waiting(j.ID) {
				return
			}
			for range 3 {
				lose(j.ID)
			}
			do("POST", "/api/jobs/"+j.ID+"/cancel", "{}")
			atomic.AddInt32(&got.Jobs, 1)
		})
	}
	for n := range 3 {
		id := fmt.Sprint("waits-", n)
		again(func() {
			answered := make(chan int, 1)
			go func() { answered <- do("POST", "/api/leases", fmt.Sprintf(waits, id, 0.2)).Status }()
			if waiting(id) {
				lose(id)
			}
			if <-answered == 0 {
				atomic.AddInt32(&got.Unanswered, 1)
			}
			atomic.AddInt32(&got.Requests, 1)
		})
	}
	all.Wait()
	say(got)
	<-ctx.Done()
	return nil
}
