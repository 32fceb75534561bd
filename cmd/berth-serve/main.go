// Command berth is the GPU resource manager: the daemon and everything that
// talks to it, in one binary.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/crew"
	"github.com/berth-gpu/berth/internal/daemon"
)

// version is set when the binary is built.
var version = "dev"

func main() {
	ctx, stop := untilSignal(os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, world(), os.Args[1:])
	stop()
	os.Exit(code)
}

// untilSignal is a context that ends with the first of these signals, which is
// its cause.
func untilSignal(signals ...os.Signal) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	came := make(chan os.Signal, 1)
	signal.Notify(came, signals...)
	go func() {
		select {
		case s := <-came:
			cancel(&cli.SignalError{Signal: s.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(came)
		cancel(nil)
	}
}

// world is this machine, as the commands see it.
func world() cli.Env {
	return cli.Env{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Getenv: os.Getenv, Environ: os.Environ, CPUs: runtime.NumCPU(), Now: time.Now, Version: version,
		Terminal: terminal(os.Stdout), ErrTerminal: terminal(os.Stderr), Serve: serve, Local: local, Probe: daemon.Probe, Become: crew.Become,
		Settings: func(file string) (*config.Settings, error) { return daemon.Load(sources(file, nil)) },
	}
}

// terminal asks for the width of the terminal that a file is, if it is one.
func terminal(f *os.File) func() (width int, ok bool) {
	return func() (width int, ok bool) {
		width, _, err := term.GetSize(int(f.Fd()))
		return width, err == nil
	}
}

func sources(file string, flags map[string]string) daemon.Sources {
	return daemon.Sources{
		File: file, Environ: os.Environ(), Getenv: os.Getenv, Flags: flags, Root: os.Geteuid() == 0,
	}
}

// local looks at the devices of this machine without a daemon.
func local(ctx context.Context, devices string) (*client.Client, func(), error) {
	flags := map[string]string{}
	if devices != "" {
		flags["daemon.devices"] = devices
	}
	settings, err := daemon.Load(sources("", flags))
	if err != nil {
		return nil, nil, err
	}
	return daemon.Local(ctx, settings, version)
}
