package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// secrets reads everything that the attacker can read while root has a lease, a
// waiting request, a batch, a plan, a measurement, a process on a device, and
// events about all of them. Each contains a word that begins with zq.
func secrets(ctx context.Context, a *arena) (v verdict, err error) {
	d, err := a.serve(ctx, setup{guests: true, config: `
gpu: {monitor_interval: 0.2, max_pipelines: 4}
hooks: {pager: {url: "http://127.0.0.1:1/zqhookurl", secret: zqhooksecret, severity: critical}}`})
	if err != nil {
		return v, err
	}
	process, err := a.act(ctx, 0, 0, "idle", "zqcomm", nil)
	if err != nil {
		return v, err
	}
	if err := d.guest("SIM-h200-1", process.pid(), 0, 1000); err != nil {
		return v, err
	}
	const most = 142000
	doings := []call{
		{Method: "POST", Path: "/api/leases", Body: fmt.Sprintf(`{"id":"a","name":"zqname","memory_mb":%d,"slots":1,"gpu":"0","binding":"process","pid":$PID}`, most)},
		{Method: "POST", Path: "/api/leases", Body: `{"id":"b","name":"zqended","memory_mb":10,"slots":0,"ttl_seconds":1,"gpu":"0"}`},
		{Method: "PUT", Path: "/api/batches/c", Body: batchBody("c", "running", "/root/zqout/zqfile.jsonl", "")},
		{Method: "PUT", Path: "/api/batches/d", Body: batchBody("d", "failed", "/root/zqfailed.jsonl", "open /root/zqerror: no")},
		{Method: "POST", Path: "/api/measurements", Body: `{"name":"zqmeasured","memory_mb":10,"seconds":1}`},
		{Method: "POST", Path: "/api/plans", Body: `{"name":"zqplan.yaml","pipelines":[{"name":"zqpipeline","steps":[{"name":"zqstep","input":"numpy","output":"cupy","memory_mb":10}]}]}`},
		{Method: "POST", Path: "/api/plans/run", Body: `{"plan":{"pipelines":[{"name":"zqrunning","slots":0,"memory_mb":10,"runs":[{"name":"zqrun","gpu":"SIM-h200-1"}]}]},"id":"e","pid":$PID}`},
	}
	var got []reply
	holder, err := a.act(ctx, 0, 0, "calls", askCalls{Door: d.socket, Calls: doings}, &got)
	if err != nil {
		return v, err
	}
	waiting, err := a.act(ctx, 0, 0, "hold", askHold{Door: d.socket, Waits: 1, Name: "zqwaiting"}, nil)
	if err != nil {
		return v, err
	}
	defer waiting.kill()
	if err := d.settle(ctx); err != nil {
		return v, err
	}
	pids := regexp.MustCompile(fmt.Sprintf(`(pid|pids|[Pp]rocess)"?[: ]*\[?[^a-z\]]*\b(%d|%d)\b`, holder.pid(), process.pid()))
	word := regexp.MustCompile(`zq[a-z]+`)
	for _, door := range d.doors() {
		var asked []call
		for _, path := range []string{
			"/api/services", "/api/services/zq", "/api/leases", "/api/leases/a", "/api/leases/e", "/api/leases/a/explain", "/api/batches", "/api/batches?ended=true", "/api/users", "/api/report?since=1h", "/api/events?follow=false", "/api/gpu/status/all?leases=true", "/api/gpu/status",
			"/api/gpu/status?gpu=1", "/api/gpu/metrics", "/api/gpu/metrics/history?gpu=1", "/api/gpu/throttle/status", "/api/gpu/memory/available",
			"/api/gpu/config", "/api/gpu/config/sources", "/api/orphans", "/api/energy", "/api/past/leases", "/api/audit", "/api/measurements", "/api/measurements?user=root", "/metrics", "/readyz", "/api/whoami", "/api/version", "/api/tokens", "/api/alerts", "/api/hooks", "/api/v1/query?query=%7B__name__=~%22.%2B%22%7D", "/api/v1/series?match[]=%7B__name__=~%22.%2B%22%7D", "/api/v1/label/lease/values", "/api/v1/metadata", "/api/v1/rules", "/api/v1/alerts",
		} {
			asked = append(asked, call{Method: "GET", Path: path})
		}
		asked = append(asked,
			call{Method: "POST", Path: "/api/leases/explain", Body: fmt.Sprintf(`{"memory_mb":%d,"gpus":2}`, most)},
			call{Method: "POST", Path: "/api/leases", Body: fmt.Sprintf(`{"memory_mb":%d,"gpu":"0","timeout_seconds":0}`, most)},
			call{Method: "POST", Path: "/api/leases", Body: `{"id":"a","memory_mb":1,"timeout_seconds":0}`},
			call{Method: "DELETE", Path: "/api/leases/a"},
			call{Method: "POST", Path: "/api/leases/a/trim"},
			call{Method: "PUT", Path: "/api/batches/c", Body: batchBody("c", "running", "x", "")},
			call{Method: "POST", Path: "/api/plans", Body: `{"name":"x","pipelines":[{"name":"x","steps":[{"name":"x","input":"numpy","output":"cupy","memory_mb":142000}]}]}`},
		)
		got, err := a.calls(ctx, attacker, door, asked...)
		if err != nil {
			return v, err
		}
		for i, each := range got {
			found := word.FindAllString(each.Body, -1)
			if pid := pids.FindString(each.Body); pid != "" {
				found = append(found, pid)
			}
			slices.Sort(found)
			if found = slices.Compact(found); len(found) > 0 {
				v.gain("%s, in the answer to %s %s over %s", strings.Join(found, " "), asked[i].Method, asked[i].Path, door)
			}
		}
	}
	return v, nil
}

// settle returns when the daemon has sampled the stranger and root's lease has
// expired.
func (d *daemon) settle(ctx context.Context) error {
	last := error(nil)
	if !eventually(8e9, func() bool {
		events, _, err := d.events(ctx)
		last = err
		expired, seen := false, false
		for _, e := range events {
			expired = expired || e.Code == "lease_expired"
			seen = seen || e.Code == "foreign_use"
		}
		return expired && seen || err != nil
	}) {
		return fmt.Errorf("root's lease does not expire, or the daemon does not see its process on the device")
	}
	return last
}
