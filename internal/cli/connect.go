package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/term"
)

// patience returns how long the daemon may take for one answer.
func (a *app) patience() time.Duration {
	if seconds, err := strconv.Atoi(a.Getenv("BERTH_PATIENCE")); err == nil && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	return 10 * time.Second
}

// client returns a client of the daemon, without asking whether it is there.
func (a *app) client() (*client.Client, error) {
	if a.socket != "" && a.url != "" {
		return nil, usage("give --socket or --url, not both")
	}
	c, err := client.Find(client.Options{
		Socket: a.socket, URL: a.url, Timeout: a.patience(),
		Retry: func(error, time.Duration) {
			a.lost("the connection to the daemon broke")
		},
	}, a.Getenv)
	if err != nil {
		return nil, usage("%v", err)
	}
	return c, nil
}

// daemon returns a client of a daemon that answers, for commands that need one.
func (a *app) daemon(ctx context.Context) (*client.Client, error) {
	c, err := a.client()
	if err != nil {
		return nil, err
	}
	if err := c.Ping(ctx); err != nil {
		return nil, err
	}
	a.answered = true
	return c, nil
}

// lost reports once per outage that the daemon went away; back ends the outage.
func (a *app) lost(what string) {
	if !a.outage {
		fmt.Fprintln(a.Err, "berth: "+term.CleanLines(what)+"; waiting for it to come back")
	}
	a.outage = true
}

func (a *app) back() { a.outage = false }

// source answers a command that only looks. Close lets go of it.
type source struct {
	*client.Client
	close func()
	local bool // there is no daemon: these are the devices as this process sees them
}

// look opens the daemon or, with no daemon running, the devices themselves.
// Naming devices means looking at them without a daemon.
func (a *app) look(ctx context.Context, devices string) (*source, error) {
	if devices != "" {
		return a.lookLocally(ctx, devices)
	}
	c, err := a.client()
	if err != nil {
		return nil, err
	}
	err = c.Ping(ctx)
	if err == nil {
		return &source{Client: c, close: c.Close}, nil
	}
	if !isLocalMiss(err) {
		return nil, err
	}
	v, err := a.lookLocally(ctx, "") // which may become another program, and that one says the same
	fmt.Fprintln(a.Err, "berth: no daemon runs; this is the local view (start one: berth serve)")
	return v, err
}

func (a *app) lookLocally(ctx context.Context, devices string) (*source, error) {
	c, closeLocal, err := a.Local(ctx, devices)
	if err != nil {
		return nil, err
	}
	return &source{Client: c, close: closeLocal, local: true}, nil
}

// isLocalMiss reports whether err says that there is no daemon on this machine.
// One that may not be used, or that should be elsewhere, is something else:
// showing the local devices instead would mislead.
func isLocalMiss(err error) bool {
	missing := (*client.NoDaemonError)(nil)
	if !errors.As(err, &missing) || errors.Is(err, fs.ErrPermission) {
		return false
	}
	for _, attempt := range missing.Attempts {
		if attempt.Network != "unix" {
			return false
		}
	}
	return true
}

// devicesFlag lets a command that only looks do so without a daemon.
func devicesFlag(cmd *cobra.Command, devices *string) {
	cmd.Flags().StringVar(devices, "devices", "", "show these `DEVICES` without a daemon, as in sim:4")
	completeWith(cmd, "devices", device.SpecExamples())
}
