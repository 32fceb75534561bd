package leasing

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
)

type renewOptions struct {
	*console.Console
	fence uint64
	ttl   console.Seconds
}

func newRenew(con *console.Console) *cobra.Command {
	o := &renewOptions{Console: con}
	cmd := &cobra.Command{
		Use:   "renew [USER/]ID",
		Short: "Renew a lease that has a time to live",
		Long: `Renew a lease: its time to live starts again now. With --fence, the daemon
refuses if the lease that came with this number has ended, so that a holder that
was away learns that it lost its lease. Operators name the lease of another user
as USER/ID.`,
		Example:           "  berth renew embedder\n  berth renew embedder --fence 12 --ttl 1h",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: con.CompleteLease,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().Uint64Var(&o.fence, "fence", 0, "`NUMBER` that came with the lease")
	cmd.Flags().Var(&o.ttl, "ttl", "the lease expires this `TIME` from now\n(default: its time to live)")
	return cmd
}

func (o *renewOptions) run(ctx context.Context, name string) error {
	renew := api.Renew{Fence: o.fence, TTL: o.ttl.Opt}
	return change(ctx, o.Console, func(c *client.Client) (api.Lease, error) {
		return byName(c, name, func(c *client.Client, id string) (api.Lease, error) { return c.Renew(ctx, id, renew) })
	}, view.GPUs.Granted)
}
