package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// The work, which is the same for every contender.
const (
	devices  = 8
	memory   = 141 << 10 // MiB of a device
	slots    = 16        // of a device
	want     = 1024      // MiB of a lease
	lifetime = 60        // seconds
)

// contender is a server that keeps leases.
type contender interface {
	// connect opens a connection for one client.
	connect(context.Context) (session, error)
	stop() error
}

// session is the connection of one client. It does one operation at a time.
type session interface {
	acquire(ctx context.Context, id string) error
	release(ctx context.Context, id string) error
	close() error
}

// errNoRoom means that no device has room. It does not happen: there are more
// slots than clients.
var errNoRoom = errors.New("no device has room")

// The leases of both contenders survive a kill of the server, and neither waits
// for the disk. They are compared with each other.
const (
	processBound = "berth-process"
	everySecond  = "redis-everysec"
)

// The other contenders that are compared with each other.
const (
	durable     = "berth"
	overHTTP    = "berth-http"
	everyChange = "redis-always"
)

// running is a started contender.
type running struct {
	name string
	contender
}

// start starts the contenders that take part, berth first.
func start(ctx context.Context, dir string, o options) ([]running, error) {
	var ours *berth
	all := []struct {
		name string
		peer string // empty: berth itself
		open func(ctx context.Context, dir string) (contender, error)
	}{
		{durable, "", func(ctx context.Context, dir string) (contender, error) {
			var err error
			ours, err = startBerth(ctx, o.berth, dir)
			return ours, err
		}},
		{overHTTP, "", func(context.Context, string) (contender, error) { return &berthHTTP{ours}, nil }},
		{processBound, "", func(context.Context, string) (contender, error) { return &berthProcess{ours}, nil }},
		{everyChange, "redis", func(ctx context.Context, dir string) (contender, error) { return startRedis(ctx, dir, "always") }},
		{everySecond, "redis", func(ctx context.Context, dir string) (contender, error) { return startRedis(ctx, dir, "everysec") }},
		{"postgres", "postgres", startPostgres},
		{"etcd", "etcd", startEtcd},
	}
	var started []running
	for i, each := range all {
		if o.skip[each.peer] || i > 0 && len(o.only) > 0 && !o.only[each.name] { // the others are compared with berth
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
