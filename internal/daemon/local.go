package daemon

import (
	"context"
	"log/slog"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
)

// Local returns a client of a daemon inside this process, which reads the devices and
// answers until the returned function is called. Read-only commands use it when no daemon
// runs.
func Local(ctx context.Context, settings *config.Settings, version string) (*client.Client, func(), error) {
	d, err := Open(ctx, Options{Settings: settings, Version: version, Log: slog.New(slog.DiscardHandler), ReadOnly: true})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); _ = d.monitor.Run(ctx) }()
	stop := func() {
		cancel()
		<-done
		_ = d.Close() // the process is about to end
	}
	c, err := client.New(client.Options{Transport: client.Through(doorkeeper.InProcess(d.handler))})
	if err != nil {
		stop()
		return nil, nil, err
	}
	return c, stop, nil
}
