package cli

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/view"
)

type leasesOptions struct {
	*app
	filter leaseFilter
	gpu    string
	orphan bool
	watch  time.Duration // 0: once
}

func newLeases(a *app) *cobra.Command {
	o := &leasesOptions{app: a}
	cmd := &cobra.Command{
		Use:     "leases",
		Short:   "Show who holds what, and who waits",
		GroupID: groupLeases,
		Long: `Show every lease, oldest first: who holds it, on which GPU, how much memory its
processes use of what they lease, what ends it, and what keeps the processes
within it. Below, show the waiting requests in the order in which the daemon
will serve them.`,
		Example: `  berth leases
  berth leases --gpu 0 --watch
  berth leases --orphans
  berth leases --service embedder --json | jq -r '.leases[].id'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			others, err := takeInterval(args, &o.watch)
			if err != nil {
				return err
			}
			if len(others) > 0 {
				return usage("leases takes no argument %q: choose with --service, --user or --gpu", others[0])
			}
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.filter.service, "service", "", "show leases of this `SERVICE`")
	flags.StringVar(&o.filter.user, "user", "", "show leases of this `USER`")
	flags.StringVar(&o.gpu, "gpu", "", "show leases on this `GPU` (index or UUID)")
	flags.BoolVar(&o.orphan, "orphans", false, "show processes that use a GPU without a lease")
	_ = cmd.RegisterFlagCompletionFunc("service", func(cmd *cobra.Command, _ []string, part string) ([]string, cobra.ShellCompDirective) {
		return a.completeService(cmd, nil, part)
	})
	gpuCompletion(a, cmd)
	watchFlag(cmd, &o.watch)
	return cmd
}

func (o *leasesOptions) run(ctx context.Context) error {
	c, err := o.daemon(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return o.tell(ctx, o.watch, func(ctx context.Context) (shown, error) { return o.ask(ctx, c) })
}

func (o *leasesOptions) ask(ctx context.Context, c *client.Client) (shown, error) {
	if o.orphan {
		gpus, err := o.indexes(ctx, c)
		if err != nil {
			return nil, err
		}
		strays, err := c.Orphans(ctx)
		return &view.Strays{Strays: strays, GPUs: gpus}, err
	}
	filter := o.filter
	if o.gpu != "" {
		device, err := c.Status(ctx, o.gpu)
		if err != nil {
			return nil, err
		}
		filter.uuid = device.Device.UUID
	}
	gpus, err := o.indexes(ctx, c)
	if err != nil {
		return nil, err
	}
	all, err := c.Leases(ctx)
	return &view.Leases{Leases: filter.apply(all), GPUs: gpus, Filtered: filter != leaseFilter{}}, err
}

// indexes asks for what people call the devices.
func (a *app) indexes(ctx context.Context, c *client.Client) (view.GPUs, error) {
	all, err := c.StatusAll(ctx)
	return view.GPUsOf(all), err
}

// showLease prints a lease that was just granted or changed.
func (a *app) showLease(l api.Lease, gpus view.GPUs) error {
	if a.json {
		return a.printJSON(l)
	}
	return a.print(gpus.Granted(l, a.screen())...)
}

// showEnded prints a lease or a request that is over.
func (a *app) showEnded(ended api.Ended, gpus view.GPUs) error {
	if a.json {
		return a.printJSON(ended)
	}
	return a.print(gpus.Ended(ended, a.screen()))
}

// leaseFilter chooses leases; what is empty does not count.
type leaseFilter struct{ service, user, uuid string }

// apply leaves out what was not asked for. A request that waits is on no device
// yet.
func (f leaseFilter) apply(all api.Leases) api.Leases {
	chosen := api.Leases{Leases: []api.Lease{}, Waiting: []api.Waiting{}}
	for _, l := range all.Leases {
		on := slices.ContainsFunc(l.Parts, func(p api.LeasePart) bool { return p.GPU == f.uuid })
		if f.holder(l.Holder) && (f.uuid == "" || on) {
			chosen.Leases = append(chosen.Leases, l)
		}
	}
	for _, w := range all.Waiting {
		if f.holder(w.Holder) && f.uuid == "" {
			chosen.Waiting = append(chosen.Waiting, w)
		}
	}
	return chosen
}

func (f leaseFilter) holder(h api.Holder) bool {
	return (f.service == "" || h.Service == f.service) && (f.user == "" || h.User == f.user)
}
