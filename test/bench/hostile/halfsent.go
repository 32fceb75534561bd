package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// filesLimit is how many files the daemon may have open at any time.
const filesLimit = 4096

// halfSent keeps half-sent requests, event streams and lease streams open, and
// checks that the daemon still serves other users. The daemon must close the
// half-sent requests.
func halfSent(ctx context.Context, a *arena) (v verdict, err error) {
	d, err := a.serve(ctx, setup{})
	if err != nil {
		return v, err
	}
	// This lease makes requests wait.
	if err := d.root(ctx, "POST", "/api/leases", `{"memory_mb":100000,"slots":0,"gpu":"0","binding":"named"}`, nil); err != nil {
		return v, err
	}
	before, err := d.files()
	if err != nil {
		return v, err
	}
	each := a.size(200, 1000)
	sum := 0
	for _, door := range d.doors() {
		for range 2 { // two processes, so that neither runs out of files itself
			var got opened
			if _, err := a.act(ctx, attacker, 0, "hold", askHold{Door: door, Halves: each / 2, Events: each / 2, Streams: each / 2, Waits: each / 2}, &got); err != nil {
				return v, err
			}
			sum += got.sum()
		}
	}
	files, err := d.files()
	if err != nil {
		return v, err
	}
	tried := 8 * each
	if open := files - before; open >= tried*9/10 {
		v.gain("%d connections of one user are open, of %d tried: there is no limit", open, tried)
	}
	if files >= filesLimit {
		v.gain("the daemon has %d files open (the most is %d)", files, filesLimit)
	}
	const limit = 2 * time.Second
	if err := d.rootWithin(ctx, limit, "GET", "/api/gpu/status/all", "", nil); err != nil {
		v.gain("%v", err)
	}
	for _, door := range d.doors() {
		began := time.Now()
		id := "victims-" + door.Network
		got, err := a.calls(ctx, victim, door, call{Method: "POST", Path: "/api/leases", Body: fmt.Sprintf(`{"id":%q,"memory_mb":10,"slots":0,"timeout_seconds":0,"binding":"named"}`, id)})
		took := time.Since(began)
		leases, err2 := d.leases(ctx)
		if err := errors.Join(err, err2); err != nil {
			return v, err
		}
		if _, granted := leases[id]; !granted || took > limit {
			v.gain("another user got no lease over %s within %v: %v after %v", door, limit, got, took.Round(time.Millisecond))
		}
	}
	peak, err := d.peakMB()
	if err != nil {
		return v, err
	}
	if peak > memoryLimitMB {
		v.gain("the daemon took %d MB (the most is %d)", peak, memoryLimitMB)
	}
	v.noting("of %d connections %d were taken; the daemon has %d files open and took %d MB", tried, sum, files, peak)
	if a.small {
		return v, nil
	}
	return v, halvesEnd(ctx, a, &v)
}

// halvesEnd checks that the daemon gives up on requests that never end.
func halvesEnd(ctx context.Context, a *arena, v *verdict) error {
	d, err := a.serve(ctx, setup{})
	if err != nil {
		return err
	}
	before, err := d.files()
	if err != nil {
		return err
	}
	for _, door := range d.doors() {
		if _, err := a.act(ctx, attacker, 0, "hold", askHold{Door: door, Halves: 50}, nil); err != nil {
			return err
		}
	}
	if !eventually(time.Minute, func() bool {
		files, err := d.files()
		return err == nil && files < before+20
	}) {
		v.gain("half-sent requests are still open after a minute")
	}
	return nil
}
