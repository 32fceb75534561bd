package main

import (
	"context"
	"strings"
	"syscall"
	"time"
)

// stalledLog makes the daemon log more than the 64 KiB that a pipe takes, while
// nobody reads the log.
func stalledLog(ctx context.Context, a *arena) (v verdict, err error) {
	d, err := a.serve(ctx, setup{stall: true, flags: []string{"--log-level", "debug"}})
	if err != nil {
		return v, err
	}
	words := strings.Repeat("w", 4000)
	loud, quiet := context.WithTimeout(ctx, 8*time.Second)
	defer quiet()
	_, _ = a.calls(loud, attacker, d.socket, call{ // the calls may hang with the daemon
		Method: "PUT", Path: "/api/batches/b-$N", Body: batchBody("b-$N", "failed", "o", words), Times: 40,
	})
	_ = a.do(loud, attacker, 0, "cycles", askCycles{Door: d.socket, Count: 1000, Side: 4}, nil)
	_, _ = a.calls(loud, attacker, d.socket, call{Method: "POST", Path: "/api/leases", Body: `{"memory_mb":143000,"gpus":2,"timeout_seconds":0.01}`, Times: 60})
	for range 5 {
		if err := d.rootWithin(ctx, 3*time.Second, "POST", "/api/leases", `{"memory_mb":10,"slots":0,"timeout_seconds":0,"ttl_seconds":60}`, nil); err != nil {
			v.gain("%v", err)
			break
		}
	}
	if err := d.rootWithin(ctx, 3*time.Second, "GET", "/api/gpu/status/all", "", nil); err != nil {
		v.gain("%v", err)
	}
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return v, err
	}
	began := time.Now()
	select {
	case <-d.exited:
		v.noting("SIGTERM ended the daemon in %v", time.Since(began).Round(time.Millisecond))
	case <-time.After(10 * time.Second):
		v.gain("SIGTERM does not end the daemon within 10 s")
	}
	return v, nil
}
