package leasing

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/console"
	"github.com/berth-gpu/berth/internal/term"
	"github.com/berth-gpu/berth/internal/view"
)

type leasesOptions struct {
	*console.Console
	filter view.LeaseFilter
	gpu    string
	orphan bool
	ended  bool
	whose  bool          // show the processes of the leases
	watch  time.Duration // 0: once
}

func newLeases(con *console.Console) *cobra.Command {
	o := &leasesOptions{Console: con}
	cmd := &cobra.Command{
		Use:   "leases",
		Short: "Show who holds what, and who waits",
		Long: `Show every lease, oldest first: who holds it, on which GPU, how much memory its
processes use of what they lease, what ends it, and what keeps the processes
within it. Below, show the waiting requests in the order in which the daemon
will serve them. With --ended, show the leases that have ended, newest first:
the most memory that was used of what was leased, for how long, and how each of
them ended.`,
		Example: `  berth leases
  berth leases --gpu 0 --watch
  berth leases --processes
  berth leases --orphans
  berth leases --ended --service embedder
  berth leases --service embedder --json | jq -r '.leases[].id'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			others, err := console.TakeInterval(args, &o.watch)
			if err != nil {
				return err
			}
			if len(others) > 0 {
				return console.Usage("leases takes no argument %q: choose with --service, --user or --gpu", others[0])
			}
			if o.orphan && o.whose || o.ended && (o.orphan || o.whose) {
				return console.Usage("give only one of --orphans, --processes and --ended")
			}
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.filter.Service, "service", "", "show leases of this `SERVICE`")
	flags.StringVar(&o.filter.User, "user", "", "show leases of this `USER`")
	flags.StringVar(&o.gpu, "gpu", "", "show leases on this `GPU` (index or UUID)")
	flags.BoolVar(&o.orphan, "orphans", false, "show processes that use a GPU without a lease")
	flags.BoolVar(&o.whose, "processes", false, "show the processes of leases, and why they belong")
	flags.BoolVar(&o.ended, "ended", false, "show leases that have ended")
	console.CompleteFlag(cmd, "service", con.CompleteService)
	console.CompleteFlag(cmd, "user", con.CompleteUser)
	console.CompleteFlag(cmd, "gpu", con.CompleteGPU)
	console.WatchFlag(cmd, &o.watch)
	return cmd
}

func (o *leasesOptions) run(ctx context.Context) error {
	c, err := o.Daemon(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return o.Tell(ctx, o.watch, func(ctx context.Context) (console.Shown, error) { return o.ask(ctx, c) })
}

func (o *leasesOptions) ask(ctx context.Context, c *client.Client) (console.Shown, error) {
	gpus, err := o.Indexes(ctx, c)
	if err != nil {
		return nil, err
	}
	if o.orphan {
		strays, err := c.Orphans(ctx)
		return &view.Strays{Strays: strays, GPUs: gpus}, err
	}
	if o.ended {
		past, err := c.PastLeases(ctx, client.PastQuery{Service: o.filter.Service, User: o.filter.User, GPU: o.gpu})
		return &view.Past{PastLeases: past, GPUs: gpus, Filtered: o.gpu != "" || o.filter != view.LeaseFilter{}}, err
	}
	filter := o.filter
	if o.gpu != "" {
		device, err := c.Status(ctx, o.gpu)
		if err != nil {
			return nil, err
		}
		filter.GPU = device.Device.UUID
	}
	all, err := c.Leases(ctx)
	if o.whose {
		return &view.Belonging{Leases: filter.Apply(all), GPUs: gpus}, err
	}
	return &view.Leases{Leases: filter.Apply(all), GPUs: gpus, Filtered: filter != view.LeaseFilter{}}, err
}

// change asks the daemon to change a lease, and prints what say makes of the
// answer.
func change[T any](ctx context.Context, con *console.Console, ask func(*client.Client) (T, error), say func(view.GPUs, T, term.Screen) []string) error {
	c, err := con.Daemon(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	gpus, err := con.Indexes(ctx, c)
	if err != nil {
		return err
	}
	answer, err := ask(c)
	if err != nil {
		return err
	}
	return con.Answer(answer, say(gpus, answer, con.Screen())...)
}
