package leasing

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
)

type releaseOptions struct {
	*console.Console
	fence uint64
}

func newRelease(con *console.Console) *cobra.Command {
	o := &releaseOptions{Console: con}
	cmd := &cobra.Command{
		Use:   "release [USER/]ID",
		Short: "End a lease, or withdraw a waiting request",
		Long: `End a lease, or withdraw a waiting request. With --fence, end only the lease
that came with this number, and not a later one of the same name. The processes
of the holder run on; what they use counts as foreign from then on.

Ids are per user. An ID means your own lease; operators and administrators who
have none mean the only one there is, and name one of several as USER/ID.`,
		Example:           "  berth release embedder\n  berth release embedder --fence 12\n  berth release ada/embedder",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: con.CompleteLease,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().Uint64Var(&o.fence, "fence", 0, "`NUMBER` that came with the lease")
	return cmd
}

func (o *releaseOptions) run(ctx context.Context, name string) error {
	return change(ctx, o.Console, func(c *client.Client) (api.Ended, error) {
		return byName(c, name, func(c *client.Client, id string) (api.Ended, error) { return c.Release(ctx, id, o.fence) })
	}, view.GPUs.Ended)
}
