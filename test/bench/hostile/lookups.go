package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/api"
)

// lookups runs the daemon with a user database that never answers: in its mount
// namespace, a FIFO without a writer replaces /etc/passwd.
func lookups(ctx context.Context, a *arena) (v verdict, err error) {
	fifo := filepath.Join(a.dir, "passwd")
	if err := unix.Mkfifo(fifo, 0o644); err != nil {
		return v, err
	}
	stranger, err := a.act(ctx, victim, 0, "idle", "", nil)
	if err != nil {
		return v, err
	}
	d, err := a.serve(ctx, setup{guests: true, passwd: fifo, config: "gpu: {monitor_interval: 0.2}"})
	if err != nil {
		return v, err
	}
	if err := d.guest("SIM-h200-0", stranger.pid(), victim, 1000); err != nil {
		return v, err
	}
	const limit = 2 * time.Second
	short, stop := context.WithCancel(ctx)
	var callers sync.WaitGroup
	defer func() { stop(); callers.Wait() }()
	for _, uid := range []int{attacker, victim, 12345} { // the daemon looks up each of them
		for _, door := range d.doors() {
			callers.Go(func() {
				_, _ = a.calls(short, uid, door, call{Method: "GET", Path: "/api/gpu/status"}) // it may hang with the daemon
			})
		}
	}
	time.Sleep(300 * time.Millisecond)
	var status api.StatusAll
	if err := d.rootWithin(ctx, limit, "GET", "/api/gpu/status/all", "", &status); err != nil {
		v.gain("%v", err)
	}
	if err := d.rootWithin(ctx, limit, "POST", "/api/leases", `{"id":"roots","memory_mb":10,"slots":0,"timeout_seconds":0}`, nil); err != nil {
		v.gain("%v", err)
	}
	began := time.Now()
	got, err := a.calls(ctx, 23456, d.socket, call{Method: "GET", Path: "/api/gpu/status"})
	if took := time.Since(began); err != nil || got[0].Status == 0 || took > limit {
		v.gain("the daemon did not answer a new user within %v (%v)", limit, took.Round(time.Millisecond))
	}
	// The daemon must still sample every device, also the one that the stranger
	// uses.
	time.Sleep(time.Second)
	var later api.StatusAll
	if err := d.rootWithin(ctx, limit, "GET", "/api/gpu/status/all", "", &later); err != nil {
		v.gain("%v", err)
		return v, nil
	}
	for _, g := range later.GPUs {
		if g.Sample == nil || time.Since(g.Sample.Time) > time.Second {
			v.gain("the daemon no longer samples %s", g.Device.UUID)
		}
	}
	return v, nil
}

// runMasked executes a program in a mount namespace of its own, in which a file
// replaces /etc/passwd.
func runMasked(file string, args []string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount(file, "/etc/passwd", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount over /etc/passwd: %w", err)
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	return syscall.Exec(path, args, syscall.Environ())
}
