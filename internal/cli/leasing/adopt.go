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

type adoptOptions struct {
	*console.Console
	request api.Adopt
	memory  console.Memory
}

func newAdopt(con *console.Console) *cobra.Command {
	o := &adoptOptions{Console: con}
	cmd := &cobra.Command{
		Use:   "adopt --pid PID",
		Short: "Give a running process a lease",
		Long: `Give a process that already uses GPUs a lease. The lease ends with the process.
It covers the memory that the process and its children use now, on every GPU
that they use, plus a margin of a tenth and at least 256 MiB. Where there is no
room for the margin, berth grants the lease without it. You cannot adopt the
daemon, or a process that it descends from.`,
		Example: `  berth adopt --pid 4711
  berth adopt --pid 4711 --service notebook --memory 8GiB --gpu 0`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("pid") {
				return console.Usage("--pid is missing: name the process to adopt, as in --pid 4711")
			}
			o.request.Memory = gpu.MiB(o.memory)
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.request.PID, "pid", 0, "`PID` of the process")
	flags.StringVar((*string)(&o.request.GPU), "gpu", "", "lease only on this `GPU` (index or UUID)")
	flags.Var(&o.memory, "memory", "lease this much `MEMORY` on each GPU, as in 4GiB")
	flags.StringVar(&o.request.Service, "service", "", "`SERVICE` that the process belongs to")
	flags.StringVar(&o.request.ID, "id", "", "`NAME` of the lease")
	console.CompleteFlag(cmd, "gpu", con.CompleteGPU)
	return cmd
}

func (o *adoptOptions) run(ctx context.Context) error {
	if o.request.PID <= 0 {
		return console.Usage("--pid must be 1 or more, not %d", o.request.PID)
	}
	return change(ctx, o.Console, func(c *client.Client) (api.Lease, error) { return c.Adopt(ctx, o.request) }, view.GPUs.Granted)
}
