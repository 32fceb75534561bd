package look

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
)

// Top shows the live view until the user ends it, or one frame. The caller passes it
// in: the libraries that draw it take a third of a millisecond at the start of every
// command that links them.
type Top func(ctx context.Context, con *console.Console, what console.Live) error

type topOptions struct {
	*console.Console
	console.Live
	show Top
}

func newTop(con *console.Console, show Top) *cobra.Command {
	o := &topOptions{Console: con, show: show}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show GPUs, leases, queue and events live, and act on them",
		Long: `Show every GPU with the curves of its last minutes, who holds what, who waits
and why, what happens, and what needs a person, until you press q. Keys sort,
filter and show details; 7 lists the processes on GPUs, with their command and
what they take of the machine, and 8 the totals of each user. c cancels a lease
or a job, r releases, p parks and u resumes a lease, and d drains a GPU, after a
confirmation that says what will happen. Press ? for all keys.

With no daemon, show the local GPUs and change nothing. If the daemon goes away,
show what it said last, and go on when it is back.

With --once, print one frame for COLUMNS and LINES and end.

With --kubernetes or --urls, show the GPUs and the leases of several machines,
which pods hold them, and which machines do not answer. There is nothing to act
on them then. Every machine is asked every 5 seconds unless --interval says
otherwise.`,
		Example: `  berth top
  berth top --gpu 2 --interval 500ms
  berth top --once
  berth top --kubernetes
  LINES=40 COLUMNS=120 berth top --once --devices sim:4`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Across.Any() && !cmd.Flags().Changed("interval") {
				o.Interval = usualAcross
			}
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&o.Interval, "interval", time.Second, "ask the daemon every `INTERVAL`")
	flags.StringVar(&o.GPU, "gpu", "", "show only this `GPU` (index or UUID)")
	flags.BoolVar(&o.Once, "once", false, "print one frame and end")
	console.CompleteFlag(cmd, "gpu", con.GPUs())
	console.DevicesFlag(cmd, &o.Devices)
	console.AcrossFlags(cmd, &o.Across)
	return cmd
}

const (
	shortestTop    = 100 * time.Millisecond
	longestTop     = time.Minute
	shortestAcross = time.Second // through kubectl, each question starts a program
	usualAcross    = 5 * time.Second
)

func (o *topOptions) run(ctx context.Context) error {
	shortest := shortestTop
	if o.Across.Any() {
		shortest = shortestAcross
	}
	switch {
	case o.JSON:
		return console.Hinted(console.Usage("top is for people and has no --json"), "programs use: berth status --json, berth leases --json, berth events --follow --json")
	case o.Interval < shortest || o.Interval > longestTop:
		return console.Usage("--interval must be from %s to %s, not %s", shortest, longestTop, o.Interval)
	case o.Across.Any() && (o.GPU != "" || o.Devices != ""):
		return console.Usage("--gpu and --devices are for one machine: filter with / instead")
	}
	return o.show(ctx, o.Console, o.Live)
}
