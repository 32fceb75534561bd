package main

import (
	"context"

	"github.com/berth-gpu/berth/gpu"
)

// displace acquires and releases leases until newer events could have displaced a
// warning about a lease of root's.
func displace(ctx context.Context, a *arena) (v verdict, err error) {
	d, err := a.serve(ctx, setup{config: "gpu: {max_pipelines: 1000}"})
	if err != nil {
		return v, err
	}
	if err := d.expire(ctx, "roots"); err != nil {
		return v, err
	}
	taken := 0
	for _, door := range d.doors() {
		var done int
		if err := a.do(ctx, attacker, 0, "cycles", askCycles{Door: door, Count: a.size(2200, 25000), Side: 16}, &done); err != nil {
			return v, err
		}
		taken += done
	}
	// The attacker causes warnings too: requests that wait in vain, leases that
	// expire, and batches that fail.
	if _, err := a.calls(ctx, attacker, d.socket,
		call{Method: "POST", Path: "/api/leases", Body: `{"memory_mb":140000,"gpus":2,"slots":1001,"timeout_seconds":0.001}`, Times: a.size(200, 5000)},
		call{Method: "PUT", Path: "/api/batches/b-$N", Body: batchBody("b-$N", "failed", "o", "e"), Times: a.size(200, 5000)},
	); err != nil {
		return v, err
	}
	if err := a.do(ctx, attacker, 0, "batches", askBatches{Door: d.socket, Count: a.size(1600, 10000)}, nil); err != nil {
		return v, err
	}
	kept, err := d.warned(ctx, "roots")
	if err != nil {
		return v, err
	}
	if !kept {
		v.gain("the warning about root's lease is gone after %d leases", taken)
	}
	v.noting("after %d leases and thousands of warnings", taken)
	return v, nil
}

// warned reports whether the events say that a lease has expired.
func (d *daemon) warned(ctx context.Context, id string) (bool, error) {
	all, _, err := d.events(ctx)
	for _, e := range all {
		if e.Code == gpu.EventExpired && e.Lease == id {
			return true, err
		}
	}
	return false, err
}
