package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

type adoptOptions struct {
	*app
	request api.Adopt
	memory  memoryValue
}

func newAdopt(a *app) *cobra.Command {
	o := &adoptOptions{app: a}
	cmd := &cobra.Command{
		Use:     "adopt --pid PID",
		Short:   "Put a process that already runs under a lease",
		GroupID: groupLeases,
		Long: `Put a process that already uses GPUs under a lease that ends with it. Unless it
is said otherwise, the lease covers what the process and its children use now,
on every GPU they are seen on, and a margin of a tenth and at least 256 MiB. It
is granted also where there is no room left, without the margin then. Neither
the daemon nor a process that it descends from can be adopted.`,
		Example: `  berth adopt --pid 4711
  berth adopt --pid 4711 --service notebook --memory 8GiB --gpu 0`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("pid") {
				return usage("say which process: --pid PID")
			}
			o.request.Memory = gpu.MiB(o.memory)
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.request.PID, "pid", 0, "`PID` of the process")
	flags.StringVar(&o.request.GPU, "gpu", "", "only on this `GPU` (index or UUID)")
	flags.Var(&o.memory, "memory", "lease this much `MEMORY` on each, as in 4GiB")
	flags.StringVar(&o.request.Service, "service", "", "`SERVICE` it belongs to")
	flags.StringVar(&o.request.ID, "id", "", "`NAME` of the lease")
	gpuCompletion(a, cmd)
	return cmd
}

func (o *adoptOptions) run(ctx context.Context) error {
	if o.request.PID <= 0 {
		return usage("there is no process %d: --pid takes a number above 0", o.request.PID)
	}
	c, err := o.daemon(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	gpus, err := o.indexes(ctx, c)
	if err != nil {
		return err
	}
	adopted, err := c.Adopt(ctx, o.request)
	if err != nil {
		return err
	}
	return o.showLease(adopted, gpus)
}
