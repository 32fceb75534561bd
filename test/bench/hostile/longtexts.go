package main

import (
	"context"
	"fmt"
	"strings"
)

// The most that the daemon may take, whatever users send.
const (
	memoryLimitMB = 300
	logLimit      = 1 << 20
	eventLimit    = 8 << 10
)

// longTexts sends texts of megabytes wherever the daemon may repeat them.
func longTexts(ctx context.Context, a *arena) (v verdict, err error) {
	d, err := a.serve(ctx, setup{config: "gpu: {max_pipelines: 1000}"})
	if err != nil {
		return v, err
	}
	long := strings.Repeat("A", 4<<20)
	mega := long[:1<<20]
	step := `"steps":[{"name":"s","input":"numpy","output":"numpy"}]`
	plan := `{"plan":{"pipelines":[{"name":"%s","slots":0,"memory_mb":1,"runs":[{"name":"%s","gpu":"%s"}]}]},"id":"%d-$N","pid":$PID}`
	times := a.size(3, 40)
	asked := []call{
		{Method: "POST", Path: "/api/plans", Body: `{"name":"` + long + `","pipelines":[{"name":"p",` + step + `}]}`, Times: a.size(15, 40)},
		{Method: "POST", Path: "/api/plans", Body: `{"name":"p","interpreter":"` + mega + `","pipelines":[{"name":"p",` + step + `}]}`, Times: times},
		{Method: "POST", Path: "/api/plans", Body: `{"name":"p","probe_error":"` + mega + `","pipelines":[{"name":"p",` + step + `}]}`, Times: times},
		{Method: "POST", Path: "/api/plans", Body: `{"name":"p","libraries":{"` + mega + `":{"status":"` + mega + `"}},"pipelines":[{"name":"p",` + step + `}]}`, Times: times},
		{Method: "POST", Path: "/api/plans", Body: `{"name":"p","pipelines":[{"name":"` + mega[:60<<10] + `",` + step + `}]}`, Times: times},
		{Method: "POST", Path: "/api/plans/run", Body: fmt.Sprintf(plan, "p", "r", long, 1), Times: times},
		{Method: "POST", Path: "/api/plans/run", Body: fmt.Sprintf(plan, "p", long, "SIM-h200-0", 2), Times: times},
		{Method: "POST", Path: "/api/plans/run", Body: fmt.Sprintf(plan, long, "r", "SIM-h200-0", 3), Times: times},
		{Method: "PUT", Path: "/api/batches/a-$N", Body: batchBody("a-$N", "failed", "o", mega[:200]), Times: 40},
		{Method: "PUT", Path: "/api/batches/b-$N", Body: batchBody("b-$N", "failed", mega[:4000], mega[:4000]), Times: 40},
		{Method: "PUT", Path: "/api/batches/c-$N", Body: batchBody("c-$N", "failed", "o", mega[:100_000]), Times: 40},
	}
	for _, door := range d.doors()[:a.size(1, 2)] {
		var got []reply
		if err := a.do(ctx, attacker, 0, "calls", askCalls{Door: door, Calls: asked, Brief: true}, &got); err != nil {
			return v, err
		}
	}
	all, longest, err := d.events(ctx)
	if err != nil {
		return v, err
	}
	if longest > eventLimit {
		v.gain("an event of %s (the most is %s), of %d", bytesOf(longest), bytesOf(eventLimit), len(all))
	}
	if n := d.logLength(); n > logLimit {
		v.gain("%s of log (the most is %s)", bytesOf(n), bytesOf(logLimit))
	}
	peak, err := d.peakMB()
	if err != nil {
		return v, err
	}
	if peak > memoryLimitMB {
		v.gain("the daemon took %d MB (the most is %d)", peak, memoryLimitMB)
	}
	v.noting("%d MB, %s of log, the longest event has %s", peak, bytesOf(d.logLength()), bytesOf(longest))
	return v, nil
}
