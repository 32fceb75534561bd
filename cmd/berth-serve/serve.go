package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/internal/cli/upkeep"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/daemon"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/footprint"
)

// daemonThreads is the number of threads for a program that sleeps nearly always: more
// threads find nothing to do, and waking one costs a little each time.
const daemonThreads = 4

const (
	// startPercent is how much garbage there may be for what is kept, in percent, for
	// startTime from the start: nearly all that a start reads is kept, so looking for
	// garbage again and again as the heap grows took a fifth of its processor time.
	startPercent = 400
	startTime    = 2 * time.Second

	// flushLimit is how long writing the end of the log may take.
	flushLimit = time.Second
	// endLimit is how long after a signal the process ends, even if something hangs. It
	// is more than a daemon needs and less than systemd waits before it kills.
	endLimit = 9 * time.Second
	// settled is when all that happens once has happened: the devices were found, every
	// sampler has run, and the past and the rules of alerts were read.
	settled = 20 * time.Second
	// reportLimit is how long a daemon that has ended may take to say why.
	reportLimit = 2 * time.Second
)

// serve runs the daemon until ctx ends.
func serve(ctx context.Context, o upkeep.ServeOptions) error {
	defer insistOnEnd()()
	hangups := catchHangups()
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(min(runtime.GOMAXPROCS(0), daemonThreads))
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(startPercent)
		time.AfterFunc(startTime, func() { debug.SetGCPercent(leastPercent) })
	}
	var warnings []string
	from := sources(o.Config, o.Flags)
	from.Warn = func(text string) { warnings = append(warnings, text) } // until there is a log
	starting := from
	starting.Start = true
	settings, err := daemon.Load(starting)
	if err != nil {
		return err
	}
	level := settings.Config.Daemon.LogLevel
	lines := daemon.NewLogQueue(os.Stderr, func(dropped uint64) []byte {
		var note bytes.Buffer
		logger(&note, "warn", o.JSON).Warn("the log was not read in time: lines are missing here", "lines", dropped)
		return note.Bytes()
	})
	defer lines.Close(flushLimit)
	log := logger(lines, level, o.JSON)
	slog.SetLogLoggerLevel(slog.LevelWarn)
	slog.SetDefault(log) // packages such as net/http would write to stderr, and wait for it
	from.Warn = func(text string) { log.Warn(text) }
	for _, text := range warnings {
		from.Warn(text)
	}
	load := func() (*config.Settings, error) { return daemon.Load(from) }
	d, err := daemon.Open(ctx, daemon.Options{Settings: settings, Version: version, Log: log, Unlogged: lines.Dropped, Load: load, Passed: process.Uptime, Guardian: guardianCommand(), Program: ownProgram(), Minder: minderProgram})
	if err != nil {
		return err
	}
	defer d.Close()
	defer hangups.reload(d)()
	defer time.AfterFunc(settled, func() {
		if err := footprint.Shed(); err != nil {
			log.Debug("memory of the start is kept", "error", err)
		}
	}).Stop()
	return d.Run(ctx)
}

// hangups are the SIGHUPs of this process from the beginning on: one that comes while the
// daemon starts would end it otherwise.
type hangups struct {
	came             chan os.Signal
	endsWithTerminal bool
}

func catchHangups() hangups {
	h := hangups{make(chan os.Signal, 1), hasTerminal() && !signal.Ignored(syscall.SIGHUP)}
	signal.Notify(h.came, syscall.SIGHUP)
	return h
}

// reload makes SIGHUP reload the configuration, until the returned function is called. A
// daemon that was started in a terminal ends with the terminal, unless it was told to
// ignore that, as nohup does.
func (h hangups) reload(d *daemon.Daemon) func() {
	go func() {
		for range h.came {
			if h.endsWithTerminal && !hasTerminal() {
				_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
				return
			}
			d.Reload()
		}
	}()
	return func() {
		signal.Ignore(syscall.SIGHUP) // one that comes now would end what the daemon closes
		close(h.came)
	}
}

// hasTerminal reports whether the process has a controlling terminal. When a terminal
// goes away, its processes lose it before they get SIGHUP.
func hasTerminal() bool {
	terminal, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	_ = terminal.Close()
	return true
}

// insistOnEnd ends the process at once at the second signal, and some time after the
// first one even if something hangs. The function that it returns gives the process a
// moment to end by itself.
func insistOnEnd() func() {
	came := make(chan os.Signal, 2)
	signal.Notify(came, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-came
		select {
		case s := <-came:
			os.Exit(128 + int(s.(syscall.Signal)))
		case <-time.After(endLimit):
			os.Exit(1)
		}
	}()
	return func() { time.AfterFunc(reportLimit, func() { os.Exit(1) }) }
}

func logger(w io.Writer, level string, asJSON bool) *slog.Logger {
	var l slog.Level
	if l.UnmarshalText([]byte(level)) != nil {
		l = slog.LevelInfo
	}
	if asJSON {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: l}))
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: l}))
}
