package console

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// patience returns how long the daemon may take for one answer.
func (c *Console) patience() time.Duration {
	if seconds, err := strconv.Atoi(c.Getenv("BERTH_PATIENCE")); err == nil && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	return 10 * time.Second
}

// Endure has clients that are made from now on wait for a daemon that is being replaced, or
// that has too many connections open. It is for commands that begin something, and for those
// that wait for its end.
func (c *Console) Endure() { c.endures = true }

// endurance returns how long a client waits for such a daemon.
func (c *Console) endurance() time.Duration {
	if c.endures {
		return c.patience()
	}
	return 0
}

// Client returns a client of the daemon, without checking that the daemon answers.
func (c *Console) Client() (*client.Client, error) {
	if c.Socket != "" && c.URL != "" {
		return nil, Usage("give --socket or --url, not both")
	}
	daemon, err := client.Find(client.Options{
		Socket: c.Socket, PeerUID: c.DaemonUID, URL: c.URL, Timeout: c.patience(),
		Patience: c.endurance(),
		Retry: func(err error, _ time.Duration) {
			missing, away := (*client.NoDaemonError)(nil), (*client.AwayError)(nil)
			switch {
			case errors.As(err, &away):
				c.lost(fmt.Sprintf("the daemon went away, and the request is made again for %s; waiting for it to come back", words.Duration(away.Within)))
			case errors.As(err, &missing):
				c.lost(err.Error() + "; waiting for it to come back")
			case IsProblem(err, "too_many_connections"):
				c.lost("too many connections to the daemon are open, of yours or of all users; asking again until others end")
			default:
				c.lost("the connection to the daemon broke; waiting for it to come back")
			}
		},
	}, c.Getenv)
	if err != nil {
		return nil, Usage("%v", err)
	}
	return daemon, nil
}

// Daemon returns a client of a daemon that answers, for commands that need one.
func (c *Console) Daemon(ctx context.Context) (*client.Client, error) {
	daemon, err := c.Client()
	if err != nil {
		return nil, err
	}
	if err := daemon.Ping(ctx); err != nil {
		return nil, err
	}
	return daemon, nil
}

// With calls do with a client of a daemon that answers.
func (c *Console) With(ctx context.Context, do func(*client.Client) error) error {
	daemon, err := c.Daemon(ctx)
	if err != nil {
		return err
	}
	defer daemon.Close()
	return do(daemon)
}

// Ask asks the daemon, and prints its answer.
func Ask[T any](ctx context.Context, c *Console, ask func(*client.Client, context.Context) (T, error), say func(T, term.Screen) []string) error {
	return c.With(ctx, func(daemon *client.Client) error {
		answer, err := ask(daemon, ctx)
		if err != nil {
			return err
		}
		return c.Answer(answer, say(answer, c.Screen())...)
	})
}

// AskByIndex does the same as Ask for an answer that names devices, which people know by
// their index.
func AskByIndex[T any](ctx context.Context, c *Console, ask func(*client.Client, context.Context) (T, error), say func(view.GPUs, T, term.Screen) []string) error {
	var gpus view.GPUs
	return Ask(ctx, c, func(daemon *client.Client, ctx context.Context) (answer T, err error) {
		if gpus, err = c.Indexes(ctx, daemon); err != nil {
			return answer, err
		}
		return ask(daemon, ctx)
	}, func(answer T, to term.Screen) []string { return say(gpus, answer, to) })
}

// lost reports, once per outage, that the daemon went away or takes no connection.
func (c *Console) lost(what string) {
	if atomic.SwapUint32(&c.outage, 1) == 0 {
		fmt.Fprintln(c.Err, "berth: "+term.CleanLines(what))
	}
}

// Lost reports whether err means that the daemon went away, and says so on Err once per
// outage. A daemon that refuses has not gone away.
func (c *Console) Lost(err error) bool {
	if problem := (*api.Problem)(nil); errors.As(err, &problem) {
		return false
	}
	c.lost(err.Error() + "; waiting for it to come back")
	return true
}

// Back ends an outage: the daemon has answered again.
func (c *Console) Back() { atomic.StoreUint32(&c.outage, 0) }

// Remote reports whether the connection keeps the daemon from seeing processes of this
// machine.
func (c *Console) Remote() bool {
	return c.URL != "" || c.Socket == "" && c.Getenv("BERTH_SOCKET") == "" && c.Getenv("BERTH_URL") != ""
}

// Indexes asks the daemon for the indexes of its devices, by which people name them.
func (c *Console) Indexes(ctx context.Context, daemon *client.Client) (view.GPUs, error) {
	all, err := daemon.StatusAll(ctx)
	return view.GPUsOf(all), err
}

// Source answers a read-only command.
type Source struct {
	*client.Client
	Local bool // no daemon runs, and this process reads the devices itself

	release func() // releases the local devices
}

// Close releases the source.
func (s *Source) Close() {
	if s.Local {
		s.release()
		return
	}
	s.Client.Close()
}

// Look opens the daemon or, if no daemon runs and none is named by --socket, --url or the
// environment, the devices themselves. If devices are named, it opens them without a daemon.
func (c *Console) Look(ctx context.Context, devices string) (*Source, error) {
	if devices != "" {
		return c.lookLocally(ctx, devices)
	}
	daemon, err := c.Client()
	if err != nil {
		return nil, err
	}
	err = daemon.Reach(ctx)
	if err == nil {
		return &Source{Client: daemon}, nil
	}
	if c.Socket != "" || c.Getenv("BERTH_SOCKET") != "" || !LocalMiss(err) { // who names a daemon wants that one
		return nil, err
	}
	v, err := c.lookLocally(ctx, "") // this process may become another program, which says the same
	fmt.Fprintln(c.Err, "berth: no daemon runs; this is the local view (start one: berth serve)")
	return v, err
}

func (c *Console) lookLocally(ctx context.Context, devices string) (*Source, error) {
	devicesHere, release, err := c.Local(ctx, devices)
	if err != nil {
		return nil, err
	}
	return &Source{Client: devicesHere, Local: true, release: release}, nil
}

// LocalMiss reports whether err means that there is no daemon on this machine. A
// daemon that refuses access or that should be elsewhere is different: showing the
// local devices instead would mislead.
func LocalMiss(err error) bool {
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

// DevicesFlag adds the flag that lets a read-only command work without a daemon.
func DevicesFlag(cmd *cobra.Command, devices *string) {
	cmd.Flags().StringVar(devices, "devices", "", "show these `DEVICES` without a daemon, as in sim:4")
	CompleteWith(cmd, "devices", device.SpecExamples())
}
