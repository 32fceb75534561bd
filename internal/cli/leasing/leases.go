package leasing

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
)

type leasesOptions struct {
	*console.Console
	filter view.LeaseFilter
	gpus   []string
	orphan bool
	ended  bool
	whose  bool          // show the processes of the leases
	limit  int           // 0 for all
	watch  time.Duration // 0 to show once
	across console.Across
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
them ended: the newest 100, unless --limit says how many.

With --kubernetes or --urls, show the leases of several machines in one table,
and which pods they are for. If a machine does not answer, the exit code is 1.`,
		Example: `  berth leases
  berth leases --gpu 0 --watch
  berth leases --processes
  berth leases --orphans
  berth leases --ended --service embedder
  berth leases --limit 20
  berth leases --kubernetes
  berth leases --service embedder --json | jq -r '.leases[].id'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return console.Usage("leases takes no argument %q: choose with --service, --user or --gpu", args[0])
			}
			if o.orphan && o.whose || o.ended && (o.orphan || o.whose) {
				return console.Usage("give only one of --orphans, --processes and --ended")
			}
			switch limited := cmd.Flags().Changed("limit"); {
			case limited && o.orphan:
				return console.Usage("--limit is not for --orphans")
			case limited && (o.limit < 1 || o.limit > mostShown):
				return console.Usage("--limit must be between 1 and %d, not %d", mostShown, o.limit)
			}
			if o.across.Any() {
				return o.runAcross(cmd.Context())
			}
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&o.filter.Services, "service", nil, "show leases of this `SERVICE`, or of several")
	flags.StringSliceVar(&o.filter.Users, "user", nil, "show leases of this `USER`, or of several")
	flags.StringSliceVar(&o.gpus, "gpu", nil, "show leases on this `GPU` (index or UUID), or\non several")
	flags.BoolVar(&o.orphan, "orphans", false, "show processes that use a GPU without a lease")
	flags.BoolVar(&o.whose, "processes", false, "show the processes of leases, and why they belong")
	flags.BoolVar(&o.ended, "ended", false, "show leases that have ended")
	flags.IntVar(&o.limit, "limit", 0, "show at most `N` leases and requests")
	console.CompleteFlag(cmd, "service", con.Services())
	console.CompleteFlag(cmd, "user", con.Users())
	console.CompleteFlag(cmd, "gpu", con.GPUs())
	console.WatchFlag(cmd, &o.watch)
	console.AcrossFlags(cmd, &o.across)
	return cmd
}

// runAcross shows the leases of several machines.
func (o *leasesOptions) runAcross(ctx context.Context) error {
	if len(o.gpus) > 0 || o.orphan || o.whose || o.ended || o.limit != 0 {
		return console.Usage("on several machines, choose with --service and --user only")
	}
	nodes, err := o.Nodes(o.across)
	if err != nil {
		return err
	}
	defer nodes.Close()
	return o.TellNodes(ctx, o.across.Interval(o.watch), nodes, func(all api.Nodes) console.Shown {
		some := o.filter.Filter.Apply(all)
		return console.Shown{Answer: some, Lines: (&view.NodesLeases{Nodes: some, Filtered: o.filter.Any()}).Lines}
	})
}

func (o *leasesOptions) run(ctx context.Context) error {
	return o.With(ctx, func(c *client.Client) error {
		return o.Tell(ctx, o.watch, func(ctx context.Context) (console.Shown, error) { return o.ask(ctx, c) })
	})
}

func (o *leasesOptions) ask(ctx context.Context, c *client.Client) (console.Shown, error) {
	gpus, err := o.Indexes(ctx, c)
	if err != nil {
		return console.Shown{}, err
	}
	if o.orphan {
		strays, err := c.Orphans(ctx)
		return console.Shown{Answer: strays, Lines: (&view.Strays{Strays: strays, GPUs: gpus}).Lines}, err
	}
	if o.ended {
		past, err := c.PastLeases(ctx, client.PastQuery{
			Service: strings.Join(o.filter.Services, ","), User: strings.Join(o.filter.Users, ","), GPU: strings.Join(o.gpus, ","), Limit: o.limit,
		})
		return console.Shown{Answer: past, Lines: (&view.Past{PastLeases: past, GPUs: gpus, Filtered: len(o.gpus) > 0 || o.filter.Any()}).Lines}, err
	}
	filter := o.filter
	for _, name := range o.gpus {
		device, err := c.Status(ctx, name)
		if err != nil {
			return console.Shown{}, err
		}
		filter.GPUs = append(filter.GPUs, device.Device.UUID)
	}
	all, missed, err := o.choose(ctx, c, filter)
	lines := (&view.Leases{Leases: all, GPUs: gpus, Filtered: filter.Any(), Missed: missed}).Lines
	if o.whose {
		lines = (&view.Belonging{Leases: all, GPUs: gpus}).Lines
	}
	return console.Shown{Answer: all, Lines: lines}, err
}

// mostShown is the largest value of --limit: the daemon lists no more at once.
const mostShown = 10_000

// choose returns the leases and requests that match. With --limit it asks for
// pages until it has enough. missed is what to do if none matches.
func (o *leasesOptions) choose(ctx context.Context, c *client.Client, filter view.LeaseFilter) (chosen api.Leases, missed string, err error) {
	if o.limit == 0 {
		all, err := c.Leases(ctx)
		if chosen = filter.Apply(all); len(chosen.Leases)+len(chosen.Waiting) == 0 {
			missed = filter.Missed(all)
		}
		return chosen, missed, err
	}
	some := api.Leases{Leases: []api.Lease{}, Waiting: []api.Waiting{}}
	for page, err := range c.LeasePages(ctx, o.limit) {
		if err != nil {
			return some, "", err
		}
		found := filter.Apply(page)
		some.Leases, some.Waiting = append(some.Leases, found.Leases...), append(some.Waiting, found.Waiting...)
		have := len(some.Leases) + len(some.Waiting)
		if have < o.limit {
			continue
		}
		some.Leases = some.Leases[:min(o.limit, len(some.Leases))]
		some.Waiting = some.Waiting[:min(o.limit-len(some.Leases), len(some.Waiting))]
		if have > o.limit || page.Next != "" {
			some.Note = fmt.Sprintf("There may be more: --limit %d ended the list.", o.limit)
		}
		break
	}
	return some, filter.Missed(api.Leases{}), nil
}
