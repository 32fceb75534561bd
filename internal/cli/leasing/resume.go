package leasing

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
)

type resumeOptions struct {
	*console.Console
	body api.Resume
	wait console.Seconds
	now  bool
}

func newResume(con *console.Console) *cobra.Command {
	o := &resumeOptions{Console: con}
	cmd := &cobra.Command{
		Use:   "resume [USER/]ID",
		Short: "Move the memory of a parked lease back to its GPU",
		Long: `Move the memory of a parked lease back to its GPU, and let its programs go on.
The lease waits for room like every request, for --wait, which is
optimization.allocation_timeout by default. With --now, it does not wait.

If you interrupt the command while the lease waits, it stays parked.`,
		Example:           "  berth resume train\n  berth resume train --now\n  berth resume ada/train --wait 10m",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: con.CompleteLease,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	flags := cmd.Flags()
	flags.Var(&o.wait, "wait", "wait this `TIME` for room, as in 30s\n(default: optimization.allocation_timeout)")
	flags.BoolVar(&o.now, "now", false, "resume it now, or not at all")
	flags.Uint64Var(&o.body.Fence, "fence", 0, "`NUMBER` that came with the lease")
	flags.StringVar(&o.body.Why, "reason", "", "`TEXT` that people read about it")
	return cmd
}

func (o *resumeOptions) run(ctx context.Context, name string) error {
	o.body.Timeout = o.wait.Opt
	if o.now {
		if o.wait.Known() {
			return console.Usage("give --wait or --now, not both")
		}
		o.body.Timeout = gpu.Some(0.0)
	}
	return move(ctx, o.Console, name, name+" stays parked, unless its memory is on its way already", func(ctx context.Context, c *client.Client, id string) (api.Lease, error) {
		return c.Resume(ctx, id, o.body)
	}, view.GPUs.Resumed)
}
