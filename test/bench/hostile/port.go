package main

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"time"
)

// takenPort listens on the daemon's port while the daemon is away, over several restarts.
func takenPort(ctx context.Context, a *arena) (v verdict, err error) {
	d, err := a.serve(ctx, setup{})
	if err != nil {
		return v, err
	}
	address := d.tcp.Address
	again := setup{flags: []string{"--listen", address}}
	d.kill()
	squatter := as(exec.Command(a.self, childCommand, "echo", strings.TrimPrefix(address, "127.0.0.1:")), attacker, 0)
	if _, err := a.start(squatter); err != nil {
		return v, err
	}
	web := d.tcp.client(time.Second)
	defer web.CloseIdleConnections()
	healthy := call{Method: "GET", Path: "/healthz"}
	if !eventually(20*time.Second, func() bool { _, err := healthy.make(ctx, d.tcp, web); return err == nil }) {
		return v, errors.New("the attacker does not get the port")
	}
	restarts := a.size(2, 6) // systemd gives up after five, without a limit of its own
	for range restarts {
		if d, err = a.serveIn(ctx, d.dir, again); err != nil {
			v.gain("the daemon does not start while somebody has its port: %s", err.Error()[max(0, len(err.Error())-300):])
			return v, nil
		}
		got, err := a.calls(ctx, victim, d.socket, call{Method: "POST", Path: "/api/leases", Body: `{"memory_mb":1,"slots":0}`})
		if err != nil {
			return v, err
		}
		if got[0].Status != 201 {
			v.gain("another user gets no lease over the socket: %d %s", got[0].Status, cut(got[0].Body, 200))
		}
		d.kill()
	}
	if d, err = a.serveIn(ctx, d.dir, again); err != nil {
		return v, err
	}
	_ = squatter.Process.Kill()
	began := time.Now()
	if !eventually(20*time.Second, func() bool {
		got, err := healthy.make(ctx, door{Network: "tcp", Address: address}, web)
		return err == nil && !strings.Contains(got.Body, `"lease"`) // as beEcho answers
	}) {
		v.gain("the daemon does not listen on its port although nobody else has it")
	}
	v.noting("%d restarts; the daemon had its port %v after it was free", restarts, time.Since(began).Round(100*time.Millisecond))
	return v, nil
}
