package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// The work, the same for everybody.
const (
	devices  = 8
	memory   = 141 << 10 // MiB of a device
	slots    = 16        // of a device
	want     = 1024      // MiB of a lease
	lifetime = 60        // seconds
)

// contender is somebody who can keep leases.
type contender interface {
	// connect opens a connection for one client.
	connect(context.Context) (session, error)
	stop() error
}

// session is the connection of one client; it does one thing at a time.
type session interface {
	acquire(ctx context.Context, id string) error
	release(ctx context.Context, id string) error
	close() error
}

// errNoRoom is said where nothing fits. It never should: there are more slots
// than clients.
var errNoRoom = errors.New("no device has room")

// Both survive a kill of the server, and neither waits for the disk: they are
// compared with each other.
const (
	processBound = "berth-process"
	everySecond  = "redis-everysec"
)

// running is a contender that has been started.
type running struct {
	name string
	contender
}

// start starts those who take part, ours first.
func start(ctx context.Context, dir string, o options) ([]running, error) {
	var ours *berth
	all := []struct {
		name string
		peer string // empty: ours
		open func(ctx context.Context, dir string) (contender, error)
	}{
		{"berth", "", func(ctx context.Context, dir string) (contender, error) {
			var err error
			ours, err = startBerth(ctx, o.berth, dir)
			return ours, err
		}},
		{"berth-http", "", func(context.Context, string) (contender, error) { return &berthHTTP{ours}, nil }},
		{processBound, "", func(context.Context, string) (contender, error) { return &berthProcess{ours}, nil }},
		{"redis-always", "redis", func(ctx context.Context, dir string) (contender, error) { return startRedis(ctx, dir, "always") }},
		{everySecond, "redis", func(ctx context.Context, dir string) (contender, error) { return startRedis(ctx, dir, "everysec") }},
		{"postgres", "postgres", startPostgres},
		{"etcd", "etcd", startEtcd},
	}
	var started []running
	for i, each := range all {
		if o.skip[each.peer] || i > 0 && len(o.only) > 0 && !o.only[each.name] { // ours is what the others are compared with
			continue
		}
		home := filepath.Join(dir, each.name)
		if err := os.Mkdir(home, 0o755); err != nil {
			return started, err
		}
		c, err := each.open(ctx, home)
		if err != nil {
			return started, fmt.Errorf("start %s: %w", each.name, err)
		}
		started = append(started, running{each.name, c})
	}
	return started, nil
}

func stopAll(all []running) {
	for _, c := range slices.Backward(all) {
		if err := c.stop(); err != nil {
			fmt.Fprintf(os.Stderr, "stop %s: %v\n", c.name, err)
		}
	}
}
