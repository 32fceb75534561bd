package leasing

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
)

type paceOptions struct {
	*console.Console
	fence  uint64
	reason string
}

func newPace(con *console.Console) *cobra.Command {
	o := &paceOptions{Console: con}
	cmd := &cobra.Command{
		Use:   "pace [USER/]ID SHARE|off",
		Short: "Hold a lease to a share of its GPUs",
		Long: `Hold a lease to a share of what it would get of its GPUs, from 5% to 100%,
without the help of its programs: berth stops and continues their processes in
turns of about a second, and measures what they get. "off" lets it run freely.

You can slow down your own leases and let them run again. Operators do so for
every lease; what an operator set, only an operator takes back. The share lasts
until the lease ends, also across a restart of the daemon.

berth never stops jobs of a shell at a terminal, processes that somebody else
has stopped or debugs, programs of berth, pods, and programs that share a GPU
through MPS.`,
		Example:           "  berth pace train 50%\n  berth pace train 50% --reason \"the room is hot\"\n  berth pace ada/train off",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: con.CompleteLease,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0], args[1]) },
	}
	cmd.Flags().Uint64Var(&o.fence, "fence", 0, "`NUMBER` that came with the lease")
	cmd.Flags().StringVar(&o.reason, "reason", "", "`TEXT` that people read about it")
	return cmd
}

func (o *paceOptions) run(ctx context.Context, name, text string) error {
	share := console.Share(1)
	if text != "off" {
		if err := share.Set(text); err != nil {
			return console.Usage("%v, or off", err)
		}
	}
	body := api.Pace{Share: float64(share), Fence: o.fence, Why: o.reason}
	return change(ctx, o.Console, func(c *client.Client) (api.Lease, error) {
		return byName(c, name, func(c *client.Client, id string) (api.Lease, error) { return c.Pace(ctx, id, body) })
	}, view.GPUs.Paced)
}
