package upkeep

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/words"
)

type drainOptions struct {
	*console.Console
	until, reason string
	wait          bool
}

func newDrain(con *console.Console) *cobra.Command {
	o := &drainOptions{Console: con}
	cmd := &cobra.Command{
		Use:   "drain GPU",
		Short: "Take a GPU out of use: what runs there goes on, nothing new comes",
		Long: `Take a GPU out of use. Leases there go on to their end, and the daemon grants no
new ones, until "berth undrain" or the time of --until, also after a restart of
the daemon. The command prints which leases are left. Requests that fit nowhere
else wait.

It needs the role operator.`,
		Example: `  berth drain 2 --reason "new fan" --wait
  berth drain 2 --until 18:00
  berth drain GPU-5a9c --until 2h`,
		ValidArgsFunction: con.GPUs(),
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.until, "until", "", "end the drain at this `TIME`, as in 18:00 or 2h\n(default: never)")
	flags.StringVar(&o.reason, "reason", "", "tell others why, in this `TEXT`")
	flags.BoolVar(&o.wait, "wait", false, "return when no lease is left")
	return cmd
}

func (o *drainOptions) run(ctx context.Context, ref string) error {
	until, err := console.Ahead(o.until, o.Now())
	if err != nil {
		return console.Usage("--until %v", err)
	}
	request := api.DrainRequest{GPU: gpu.Ref(ref), Reason: o.reason}
	if !until.IsZero() {
		request.Until = &until
	}
	return console.Ask(ctx, o.Console, func(c *client.Client, ctx context.Context) (api.Drained, error) {
		done, err := c.Drain(ctx, request)
		if err != nil || !o.wait || len(done.Leases) == 0 {
			return done, err
		}
		if !o.JSON {
			if err := o.Print(view.Drained(done, o.Screen())...); err != nil {
				return done, err
			}
		}
		return o.await(ctx, c, done)
	}, view.Drained)
}

// await returns when no lease is left on a drained device, or when the device is no
// longer drained.
func (o *drainOptions) await(ctx context.Context, c *client.Client, d api.Drained) (api.Drained, error) {
	defer o.Slowly("waiting for " + words.Count(len(d.Leases), "lease") + " to end")()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for len(d.Leases) > 0 && d.Drain != nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return d, context.Cause(ctx)
		}
		now, err := c.StatusWithLeases(ctx, d.GPU)
		if err != nil {
			if o.Lost(err) {
				continue
			}
			return d, err
		}
		o.Back()
		d.Drain, d.Leases = now.Drain, now.Leases
	}
	return d, nil
}

func newUndrain(con *console.Console) *cobra.Command {
	return console.Act(con, &cobra.Command{
		Use:   "undrain GPU",
		Short: "Let a drained GPU be used again",
		Long: `Let a drained GPU be used again. A GPU that is not well stays closed until it is
well: "berth status" shows that. It needs the role operator.`,
		Example:           "  berth undrain 2",
		ValidArgsFunction: con.GPUs(),
	}, func(ctx context.Context, c *client.Client, args []string) (api.Drained, error) {
		return c.Undrain(ctx, api.UndrainRequest{GPU: gpu.Ref(args[0])})
	}, view.Undrained)
}
