// Package daemontest starts whole daemons inside a test: with simulated devices, and with
// a socket and a state folder of their own.
package daemontest

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/daemon"
)

// Version is the version that these daemons report.
const Version = "1.2.3"

// Daemon is a daemon that answers on its socket.
type Daemon struct {
	Socket string
	Stop   func() error // ends the daemon, removes what Start made, and returns how the daemon ended
}

// Options configures a daemon.
type Options struct {
	Devices string // such as sim:4
	File    string // configuration file; may be empty
	State   string // state folder; empty means one that is removed with the daemon
}

// Start starts a daemon, and returns once it answers.
func Start(o Options) (*Daemon, error) {
	dir, err := os.MkdirTemp("", "b") // short, because the path of a socket is limited
	if err != nil {
		return nil, err
	}
	d, err := start(dir, o)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return d, nil
}

func start(dir string, o Options) (*Daemon, error) {
	from := sources(dir, o)
	from.Start = true
	settings, err := daemon.Load(from)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	d, err := daemon.Open(ctx, daemon.Options{Settings: settings, Version: Version, Log: slog.New(slog.DiscardHandler), Load: func() (*config.Settings, error) { return Settings(dir, o) }})
	if err != nil {
		cancel()
		return nil, err
	}
	done := make(chan error, 1)
	go func() { done <- errors.Join(d.Run(ctx), d.Close()) }()
	running := &Daemon{Socket: settings.Config.Daemon.Socket, Stop: sync.OnceValue(func() error {
		cancel()
		return errors.Join(<-done, os.RemoveAll(dir))
	})}
	c, err := client.New(client.Options{Socket: running.Socket})
	if err != nil {
		return nil, errors.Join(err, running.Stop())
	}
	defer c.Close()
	for c.Ping(ctx) != nil {
		select {
		case err := <-done: // it did not start
			cancel()
			return nil, err
		default:
		}
	}
	return running, nil
}

// Settings reads the configuration of a daemon that keeps its files in dir.
func Settings(dir string, o Options) (*config.Settings, error) {
	return daemon.Load(sources(dir, o))
}

func sources(dir string, o Options) daemon.Sources {
	return daemon.Sources{File: o.File, Getenv: func(string) string { return "" }, Flags: map[string]string{
		"daemon.devices": o.Devices, "daemon.state_dir": cmp.Or(o.State, filepath.Join(dir, "state")),
		"daemon.socket": filepath.Join(dir, "s"), "daemon.listen": "",
	}}
}

// Open starts a daemon for one test, and returns a client of it.
func Open(t testing.TB, o Options) *client.Client {
	t.Helper()
	d, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Stop(); err != nil {
			t.Logf("stop the daemon: %v", err)
		}
	})
	c, err := client.New(client.Options{Socket: d.Socket})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Scenario writes a scenario of the simulator to a file, and returns the devices that it
// describes. Its clock starts before the daemon looks, so a fault that must be seen has
// to repeat, and a device that goes away has to be there for two seconds first.
func Scenario(t testing.TB, text string) (devices string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "scenario.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "sim:" + path
}

// Await waits for an event. An event of the past counts too.
func Await(ctx context.Context, c *client.Client, filter gpu.EventFilter) (gpu.Event, error) {
	for e, err := range c.EventsWhere(ctx, client.EventQuery{Follow: true, Filter: filter}) {
		if err != nil || e.Code != gpu.EventGap {
			return e, err
		}
	}
	return gpu.Event{}, ctx.Err()
}
