package leasing

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
)

type parkOptions struct {
	*console.Console
	body api.Park
}

func newPark(con *console.Console) *cobra.Command {
	o := &parkOptions{Console: con}
	cmd := &cobra.Command{
		Use:   "park [USER/]ID",
		Short: "Move the GPU memory of a lease to the machine's memory",
		Long: `Move the memory of a lease from its GPU to the memory of the machine, without
the help of its programs, which stand still meanwhile. The lease then holds
neither memory nor slots, and others can have them. It stays parked until
berth resume, or until its program asks for it, if that is one that runs on.

berth parks all processes of the lease, or none. It refuses a lease on several
GPUs, a program under MPS, unified memory, and what the driver refuses, and says
why. docs/guide/sharing.md says more.

A process that has opened GPU memory of another one (CUDA IPC) would not come
back. So berth refuses a lease with several processes on the GPU, or with
relatives there, unless you say with --unshared that they share no GPU memory.
Only the owner of a lease can say that.

You can park your own leases; operators park every lease. If you interrupt the
command, the daemon goes on.`,
		Example:           "  berth park train\n  berth park ada/train --reason \"the demo needs the GPU\"\n  berth park server --unshared",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: con.CompleteLease,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().Uint64Var(&o.body.Fence, "fence", 0, "`NUMBER` that came with the lease")
	cmd.Flags().StringVar(&o.body.Why, "reason", "", "`TEXT` that people read about it")
	cmd.Flags().BoolVar(&o.body.Unshared, "unshared", false, "the processes of the lease share no GPU memory, with each\nother or with others")
	return cmd
}

func (o *parkOptions) run(ctx context.Context, name string) error {
	return move(ctx, o.Console, name, "the daemon goes on parking "+name, func(ctx context.Context, c *client.Client, id string) (api.Lease, error) {
		return c.Park(ctx, id, o.body)
	}, view.GPUs.Parked)
}
