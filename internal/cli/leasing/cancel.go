package leasing

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
)

func newCancel(con *console.Console) *cobra.Command {
	var body api.Cancel
	cmd := &cobra.Command{
		Use:   "cancel [USER/]ID…",
		Short: "End the programs of a lease, and the lease with them",
		Long: `End the programs of a lease, and the lease with them. Its own processes get
SIGTERM, and what still runs after optimization.deallocation_timeout gets
SIGKILL; the programs of a parked lease get SIGKILL at once. A request that
waits is withdrawn. The command returns when the daemon has written that down:
a restart of the daemon changes nothing about it.

You can cancel your own leases; berth then ends only processes that you could
signal yourself, and an event names the others. Operators cancel every lease,
with all its processes. The lease of a batch means the runner of the batch. A
lease that belongs to a pod is refused: delete the pod.

To end only the lease, and let its programs run on: berth release --keep-running`,
		Example:           "  berth cancel train-7\n  berth cancel train-7 train-8 --reason \"wrong data\"\n  berth cancel ada/train",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: con.Leases(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if body.Fence != 0 && len(args) > 1 {
				return console.Usage("--fence is the number of one lease; name only that one")
			}
			var all error
			for _, name := range args {
				all = errors.Join(all, change(cmd.Context(), con, name, func(ctx context.Context, c *client.Client, id string) (api.Ended, error) {
					return c.Cancel(ctx, id, body)
				}, view.GPUs.Cancelled))
			}
			return all
		},
	}
	cmd.Flags().Uint64Var(&body.Fence, "fence", 0, "`NUMBER` that came with the lease")
	cmd.Flags().StringVar(&body.Why, "reason", "", "`TEXT` that its user and operators read about it")
	return cmd
}
