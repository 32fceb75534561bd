package cli

import (
	"context"

	"github.com/spf13/cobra"
)

type releaseOptions struct {
	*app
	id    string
	fence uint64
}

func newRelease(a *app) *cobra.Command {
	o := &releaseOptions{app: a}
	cmd := &cobra.Command{
		Use:     "release ID",
		Short:   "End a lease, or withdraw a waiting request",
		GroupID: groupLeases,
		Long: `End a lease, or withdraw a waiting request. With --fence, end only the lease
that came with this number, and not a later one of the same name. The processes
of the holder run on; what they use counts as foreign from then on.`,
		Example:           "  berth release embedder\n  berth release embedder --fence 12",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeLease,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = args[0]
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().Uint64Var(&o.fence, "fence", 0, "`NUMBER` that came with the lease")
	return cmd
}

func (o *releaseOptions) run(ctx context.Context) error {
	c, err := o.daemon(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	gpus, err := o.indexes(ctx, c)
	if err != nil {
		return err
	}
	ended, err := c.Release(ctx, o.id, o.fence)
	if err != nil {
		return err
	}
	return o.showEnded(ended, gpus)
}
