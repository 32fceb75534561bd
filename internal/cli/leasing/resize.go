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

type resizeOptions struct {
	*console.Console
	body api.Resize
	wait console.Seconds
}

func newResize(con *console.Console) *cobra.Command {
	o := &resizeOptions{Console: con}
	cmd := &cobra.Command{
		Use:   "resize [USER/]ID MEMORY",
		Short: "Give a lease more or less memory",
		Long: `Give a lease another amount of memory on each of its GPUs. Less is given back at
once, if the programs of the lease use no more than that. More is granted if
there is room; with --wait, the lease waits for room like every request.

berth also tells a program with the Python package, whose limits for PyTorch and
CuPy follow. Other programs keep the limit that they were started with.`,
		Example:           "  berth resize train 8GiB\n  berth resize train 40GiB --wait 10m\n  berth resize ada/train 4096",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: con.CompleteLease,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0], args[1]) },
	}
	cmd.SetFlagErrorFunc(negative)
	cmd.Flags().Var(&o.wait, "wait", "wait this `TIME` for room, as in 30s (default: not at all)")
	cmd.Flags().Uint64Var(&o.body.Fence, "fence", 0, "`NUMBER` that came with the lease")
	return cmd
}

func (o *resizeOptions) run(ctx context.Context, name, amount string) (err error) {
	if o.body.Memory, err = gpu.ParseMiB(amount); err != nil {
		return console.Usage("%v", err)
	}
	o.body.Timeout = o.wait.Opt
	return move(ctx, o.Console, name, name+" keeps its size", func(ctx context.Context, c *client.Client, id string) (api.Lease, error) {
		return c.Resize(ctx, id, o.body)
	}, view.GPUs.Resized)
}
