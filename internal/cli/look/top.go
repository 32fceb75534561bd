package look

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/console"
)

// Top shows the live view until the user ends it, or one frame. It is handed in:
// the libraries that draw it take a third of a millisecond at the start of every
// command that links them.
type Top func(ctx context.Context, con *console.Console, interval time.Duration, gpu, devices string, once bool) error

type topOptions struct {
	*console.Console
	show     Top
	interval time.Duration
	gpu      string
	once     bool
	devices  string
}

func newTop(con *console.Console, show Top) *cobra.Command {
	o := &topOptions{Console: con, show: show}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show GPUs, leases, queue and events live, and act on them",
		Long: `Show every GPU with the curves of its last minutes, who holds what, who waits
and why, what happens, and what needs a person, until you press q. Keys sort,
filter and show details; r releases, p parks and u resumes a lease, and d drains
a GPU, after a confirmation that says what will happen. Press ? for all keys.

With no daemon, show the local GPUs and change nothing. If the daemon goes away,
show what it said last, and go on when it is back.

With --once, print one frame for COLUMNS and LINES and end.`,
		Example: `  berth top
  berth top --gpu 2 --interval 500ms
  berth top --once
  LINES=40 COLUMNS=120 berth top --once --devices sim:4`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.DurationVar(&o.interval, "interval", time.Second, "ask the daemon every `INTERVAL`")
	flags.StringVar(&o.gpu, "gpu", "", "show only this `GPU` (index or UUID)")
	flags.BoolVar(&o.once, "once", false, "print one frame and end")
	console.CompleteFlag(cmd, "gpu", con.CompleteGPU)
	console.DevicesFlag(cmd, &o.devices)
	return cmd
}

const (
	shortestTop = 100 * time.Millisecond
	longestTop  = time.Minute
)

func (o *topOptions) run(ctx context.Context) error {
	switch {
	case o.JSON:
		return console.Hinted(console.Usage("top is for people and has no --json"), "programs use: berth status --json, berth leases --json, berth events --follow --json")
	case o.interval < shortestTop || o.interval > longestTop:
		return console.Usage("--interval must be from %s to %s, not %s", shortestTop, longestTop, o.interval)
	}
	return o.show(ctx, o.Console, o.interval, o.gpu, o.devices, o.once)
}
