package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
)

// batchBody returns a report about a batch as JSON.
func batchBody(id, stage, output, failure string) string {
	b := api.Batch{ID: id, Stage: stage, Output: output, Command: output, Error: failure, Done: 1, GPUs: []api.BatchGPU{}}
	text, err := json.Marshal(b)
	if err != nil {
		panic(err) // cannot happen: the shape is fixed
	}
	return string(text)
}

// throughput reports more records than there can be, with a lease on the device
// and without one.
func throughput(ctx context.Context, a *arena) (v verdict, err error) {
	d, err := a.serve(ctx, setup{config: "gpu: {max_pipelines: 1000}"})
	if err != nil {
		return v, err
	}
	report := func(id, uuid string, done int64) string {
		b := api.Batch{ID: id, Stage: "running", Output: "o", Done: done, Workers: 1, GPUs: []api.BatchGPU{{
			GPU: uuid, Name: "n", Workers: 1, Ready: 1, Speed: 1, Batch: 1, Done: done, Busy: 1e300,
			Latency: api.Latency{Bounds: []float64{1}, Counts: []uint64{uint64(done), uint64(done)}, Sum: 1e300},
		}}}
		text, err := json.Marshal(b)
		if err != nil {
			panic(err) // cannot happen: the shape is fixed
		}
		return string(text)
	}
	for i, door := range d.doors() {
		for _, uuid := range []string{"SIM-h200-0", "SIM-h200-1"} {
			asked := []call{
				{Method: "POST", Path: "/api/leases", Body: `{"memory_mb":10,"slots":0,"gpu":"0","timeout_seconds":0}`}, // on one of the two
				{Method: "PUT", Path: fmt.Sprintf("/api/batches/b%d", i), Body: report(fmt.Sprintf("b%d", i), uuid, 0)},
				{Method: "PUT", Path: fmt.Sprintf("/api/batches/b%d", i), Body: report(fmt.Sprintf("b%d", i), uuid, 9e18)},
				{Method: "PUT", Path: fmt.Sprintf("/api/batches/c%d-$N", i), Body: report(fmt.Sprintf("c%d-$N", i), uuid, 9e18), Times: 5},
			}
			if _, err := a.calls(ctx, attacker, door, asked...); err != nil {
				return v, err
			}
		}
	}
	var page string
	if err := d.root(ctx, "GET", "/metrics", "", &page); err != nil {
		return v, err
	}
	for _, found := range regexp.MustCompile(`(?m)^(gpu_throughput_ops_total|gpu_operation_latency_seconds_(?:sum|count))(\{.*\})? (\S+)$`).FindAllStringSubmatch(page, -1) {
		value, err := strconv.ParseFloat(found[3], 64)
		if err != nil || !(value < 1e12) { // NaN counts too
			v.gain("%s%s is %s", found[1], found[2], found[3])
		}
	}
	return v, nil
}

// places reports batches until there is no place for a batch of root's.
func places(ctx context.Context, a *arena) (v verdict, err error) {
	d, err := a.serve(ctx, setup{})
	if err != nil {
		return v, err
	}
	for _, door := range d.doors() {
		var got []reply
		asked := askCalls{Door: door, Side: 8, Brief: true, Calls: []call{{
			Method: "PUT", Path: "/api/batches/" + door.Network + "-$N", Body: batchBody(door.Network+"-$N", "running", "o", ""), Times: a.size(1100, 5000),
		}}}
		if err := a.do(ctx, attacker, 0, "calls", asked, &got); err != nil {
			return v, err
		}
	}
	if err := d.root(ctx, "PUT", "/api/batches/roots", batchBody("roots", "running", "o", ""), nil); err != nil {
		v.gain("%v", err)
	}
	var all api.Batches
	if err := d.root(ctx, "GET", "/api/batches", "", &all); err != nil {
		return v, err
	}
	found := false
	for _, b := range all.Batches {
		found = found || b.ID == "roots"
	}
	if !found {
		v.gain("root's batch is not listed, among %d", len(all.Batches))
	}
	v.noting("%d batches are listed", len(all.Batches))
	return v, nil
}

// askBatches asks for batches that fail. Each causes a warning.
type askBatches struct {
	Door  door
	Count int
}

// reportBatches reports a few batches as failed again and again.
func reportBatches(ctx context.Context, in json.RawMessage, say func(any)) error {
	var asked askBatches
	if err := json.Unmarshal(in, &asked); err != nil {
		return err
	}
	var all sync.WaitGroup
	web := asked.Door.client(10 * time.Second)
	for side := range 8 {
		all.Go(func() { failAgain(ctx, asked, side, web) })
	}
	all.Wait()
	say("done")
	return nil
}

func failAgain(ctx context.Context, asked askBatches, side int, web *http.Client) {
	for n := range asked.Count / 8 {
		stage := []string{"running", "failed"}[n%2]
		c := call{Method: "PUT", Path: fmt.Sprintf("/api/batches/again-%d", side), Body: batchBody(fmt.Sprintf("again-%d", side), stage, "o", "e")}
		if _, err := c.make(ctx, asked.Door, web); err != nil {
			return
		}
	}
}

// learned posts measurements until the daemon forgets those of root.
func learned(ctx context.Context, a *arena) (v verdict, err error) {
	d, err := a.serve(ctx, setup{})
	if err != nil {
		return v, err
	}
	if err := d.root(ctx, "POST", "/api/measurements", `{"name":"roots","memory_mb":1000,"seconds":1}`, nil); err != nil {
		return v, err
	}
	for _, door := range d.doors() {
		asked := askCalls{Door: door, Side: 8, Brief: true, Calls: []call{{
			Method: "POST", Path: "/api/measurements", Body: `{"name":"` + door.Network + `-$N","memory_mb":1000,"seconds":1}`, Times: a.size(2500, 5000),
		}}}
		if err := a.do(ctx, attacker, 0, "calls", asked, nil); err != nil {
			return v, err
		}
	}
	var all api.Measurements
	if err := d.root(ctx, "GET", "/api/measurements", "", &all); err != nil {
		return v, err
	}
	found := false
	for _, m := range all.Measurements {
		found = found || m.Name == "roots"
	}
	if !found {
		v.gain("the daemon forgot what it learned from root's runs; it keeps %d entries", len(all.Measurements))
	}
	v.noting("%d entries", len(all.Measurements))
	return v, nil
}
