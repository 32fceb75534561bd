package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
)

type renewOptions struct {
	*app
	id    string
	fence uint64
	ttl   secondsValue
}

func newRenew(a *app) *cobra.Command {
	o := &renewOptions{app: a}
	cmd := &cobra.Command{
		Use:     "renew ID",
		Short:   "Renew a lease that has a time to live",
		GroupID: groupLeases,
		Long: `Renew a lease: its time to live starts again now. With --fence, the daemon
refuses if the lease that came with this number has ended, so that a holder that
was away learns that it lost its lease.`,
		Example:           "  berth renew embedder\n  berth renew embedder --fence 12 --ttl 1h",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeLease,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = args[0]
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().Uint64Var(&o.fence, "fence", 0, "`NUMBER` that came with the lease")
	cmd.Flags().Var(&o.ttl, "ttl", "the lease expires this `TIME` from now\n(default: its time to live)")
	return cmd
}

func (o *renewOptions) run(ctx context.Context) error {
	c, err := o.daemon(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	gpus, err := o.indexes(ctx, c)
	if err != nil {
		return err
	}
	renewed, err := c.Renew(ctx, o.id, api.Renew{Fence: o.fence, TTL: o.ttl.Opt})
	if err != nil {
		return err
	}
	return o.showLease(renewed, gpus)
}
