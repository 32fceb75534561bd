package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"syscall"

	"github.com/berth-gpu/berth/internal/cli/upkeep"
	"github.com/berth-gpu/berth/internal/door/front"
)

// The requests of the front leave much garbage, and what it keeps is small. It may grow to
// five times what it keeps before it collects garbage, but by mostGarbage at most unless it
// keeps more than that.
const (
	mostPercent  = 400
	leastPercent = 100
	mostGarbage  = 48 << 20
)

// boundGarbage sets after each collection how much garbage there may be before the next.
func boundGarbage() {
	debug.SetGCPercent(mostPercent)
	set, live := mostPercent, []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	var after func()
	after = func() {
		metrics.Read(live)
		percent := mostPercent
		if kept := live[0].Value.Uint64(); kept > 0 {
			percent = int(min(max(mostGarbage*100/kept, leastPercent), mostPercent))
		}
		if percent != set { // to set it stops all goroutines for a moment
			set = percent
			debug.SetGCPercent(percent)
		}
		runtime.AddCleanup(new([16]byte), func(struct{}) { after() }, struct{}{})
	}
	after()
}

// takeRequests runs the front until ctx ends, and then until its last request has ended or
// a second signal comes.
func takeRequests(ctx context.Context, o upkeep.FrontOptions) error {
	if os.Getenv("GOGC") == "" {
		boundGarbage()
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
