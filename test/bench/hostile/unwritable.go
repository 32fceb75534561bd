package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// unwritable kills processes that hold leases while the disk takes no writes.
// Linux does not mount a file system read-only while the journal is open, so the
// referee lowers the daemon's limit for the size of files: every write fails
// until it raises the limit again.
func unwritable(ctx context.Context, a *arena) (v verdict, err error) {
	d, err := a.serve(ctx, setup{guests: true, config: "gpu: {monitor_interval: 0.1, max_pipelines: 1000}"})
	if err != nil {
		return v, err
	}
	// Half of the holders have a child that uses a device: their leases pass to
	// the child, and end with it.
	const holders = 50
	var pairs []pair
	group, err := a.act(ctx, attacker, 0, "holders", askHolders{Door: d.socket, Count: holders}, &pairs)
	if err != nil {
		return v, err
	}
	leases, err := d.leases(ctx)
	if err != nil {
		return v, err
	}
	if len(leases) < holders/2 {
		return v, fmt.Errorf("only %d of %d processes got a lease", len(leases), holders)
	}
	for i, p := range pairs {
		if i%2 == 0 {
			if err := d.guest("SIM-h200-0", p.Child, attacker, 10); err != nil {
				return v, err
			}
		}
	}
	time.Sleep(500 * time.Millisecond) // until the daemon has sampled them
	for i, p := range pairs {
		if i%2 == 0 {
			_ = syscall.Kill(p.Holder, syscall.SIGKILL)
		}
	}
	time.Sleep(500 * time.Millisecond)
	if leases, err = d.leases(ctx); err != nil {
		return v, err
	}
	inherited := 0
	for _, l := range leases {
		if l.Heir != 0 {
			inherited++
		}
	}
	before, err := d.goroutines(ctx)
	if err != nil {
		return v, err
	}
	restore, err := d.refuseWrites()
	if err != nil {
		return v, err
	}
	group.kill()
	var most float64
	began := time.Now()
	for time.Since(began) < time.Duration(a.size(3, 10))*time.Second {
		time.Sleep(100 * time.Millisecond)
		now, err := d.goroutines(ctx)
		if err != nil {
			v.gain("%v", err)
			break
		}
		most = max(most, now)
	}
	if most > before+2*holders+20 {
		v.gain("%.0f goroutines after %v without a disk, %.0f before", most, time.Since(began).Round(time.Second), before)
	}
	if leases, err = d.leases(ctx); err == nil && len(leases) < holders/2 {
		return v, fmt.Errorf("the daemon could still write: %d leases are left of %d", len(leases), holders)
	}
	if err := restore(); err != nil {
		return v, err
	}
	if !eventually(20*time.Second, func() bool {
		leases, err = d.leases(ctx)
		return err == nil && len(leases) == 0
	}) {
		v.gain("%d leases of dead processes still exist 20 s after the disk is back (%v)", len(leases), err)
	}
	v.noting("%d leases, of which %d passed to children; %.0f goroutines before, at most %.0f while the disk took no writes", len(pairs), inherited, before, most)
	return v, nil
}

// refuseWrites makes every write of the daemon to a file fail, until the caller
// calls restore.
func (d *daemon) refuseWrites() (restore func() error, err error) {
	var old unix.Rlimit
	if err := unix.Prlimit(d.pid(), unix.RLIMIT_FSIZE, nil, &old); err != nil {
		return nil, err
	}
	none := unix.Rlimit{Cur: 0, Max: old.Max}
	restore = func() error { return unix.Prlimit(d.pid(), unix.RLIMIT_FSIZE, &old, nil) }
	return restore, unix.Prlimit(d.pid(), unix.RLIMIT_FSIZE, &none, nil)
}

var goroutines = regexp.MustCompile(`(?m)^go_goroutines (\S+)$`)

// goroutines returns how many goroutines the daemon has.
func (d *daemon) goroutines(ctx context.Context) (float64, error) {
	var page string
	if err := d.root(ctx, "GET", "/metrics", "", &page); err != nil {
		return 0, err
	}
	found := goroutines.FindStringSubmatch(page)
	if found == nil {
		return 0, fmt.Errorf("the metrics page has no go_goroutines")
	}
	return strconv.ParseFloat(found[1], 64)
}
