package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/berth-gpu/berth/internal/cli/upkeep"
	"github.com/berth-gpu/berth/internal/door/front"
)

// frontGarbage is how much the memory of the front may grow before it is collected, in
// percent: its requests leave much garbage, and what it keeps is small.
const frontGarbage = 400

// takeRequests runs the front until ctx ends, and then until its last request has ended or
// a second signal comes.
func takeRequests(ctx context.Context, o upkeep.FrontOptions) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(frontGarbage)
	}
	log := logger(os.Stderr, o.Level, o.JSON)
	slog.SetDefault(log)
	hurry, cancel := context.WithCancel(context.Background())
	defer cancel()
	came := make(chan os.Signal, 2)
	signal.Notify(came, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(came)
	go func() {
		for range 2 {
			select {
			case <-came:
			case <-hurry.Done():
				return
			}
		}
		cancel()
	}()
	return front.Run(ctx, hurry, front.Options{Daemon: o.Daemon, Log: log, Settings: o.Settings, Spool: o.Spool})
}
