package cli

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/berth-gpu/berth/internal/cli/console"
)

// ThisMachine returns the environment of a process on this machine. The caller sets the
// fields that need other packages: Serve, Local, Settings, Become and Probe.
func ThisMachine(version string) Env {
	return Env{Env: console.Env{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Getenv: os.Getenv, Environ: os.Environ(), CPUs: runtime.NumCPU(), Now: time.Now, Version: version,
		Terminal: terminal(os.Stdout), ErrTerminal: terminal(os.Stderr),
	}}
}

// terminal returns a function that returns the width of f if it is a terminal.
func terminal(f *os.File) func() (width int, ok bool) {
	return func() (width int, ok bool) {
		width, _, err := term.GetSize(int(f.Fd()))
		return width, err == nil
	}
}

// UntilSignal returns a context that ends with the first of these signals. The signal
// is the cause of the context.
func UntilSignal(signals ...os.Signal) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	came := make(chan os.Signal, 1)
	signal.Notify(came, signals...)
	go func() {
		select {
		case s := <-came:
			cancel(&console.SignalError{Signal: s.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(came)
		cancel(nil)
	}
}
