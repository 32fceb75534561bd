package leasing

import (
	"context"
	"sync"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

type optimizeOptions struct {
	*console.Console
	body api.Optimize
}

func newOptimize(con *console.Console) *cobra.Command {
	o := &optimizeOptions{Console: con}
	cmd := &cobra.Command{
		Use:   "optimize [SERVICE]",
		Short: "Get GPU memory back that nobody uses",
		Long: `Get memory back, one way after the other: end the leases of holders that are
gone, name orphans, ask programs to free the caches of their libraries, shrink
leases that use less than they asked for, park idle leases, and propose which
move would make room for a request that waits. berth measures every amount
before and after.

With a SERVICE, it works on the leases of that service. You get memory back from
your own leases, and operators from all. berth shrinks and parks a lease by
itself only if its service or its request allows that. With --dry-run, it says
what it would do, what it would leave alone, and why.`,
		Example: `  berth optimize --dry-run
  berth optimize
  berth optimize embedder --json | jq '.rungs[] | {name, freed_mb}'`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: con.CompleteService,
		RunE: func(cmd *cobra.Command, args []string) error {
			service, err := serviceOf(args)
			if err != nil {
				return err
			}
			o.body.Service = service
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&o.body.DryRun, "dry-run", false, "only say what would be done")
	return cmd
}

// serviceOf returns the service that an argument names, or "" if there is none.
func serviceOf(args []string) (string, error) {
	if len(args) == 0 {
		return "", nil
	}
	if args[0] == "" {
		return "", console.Usage("the SERVICE is empty: name one, or leave it out for all leases")
	}
	return words.Service(args[0]), nil
}

func (o *optimizeOptions) run(ctx context.Context) error {
	c, err := o.Daemon(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	gpus, err := o.Indexes(ctx, c)
	if err != nil {
		return err
	}
	following, stop := context.WithCancel(ctx)
	var follower sync.WaitGroup
	follower.Go(func() { o.follow(following, c) })
	found, err := c.Optimize(ctx, o.body)
	stop()
	follower.Wait()
	if err != nil {
		return err
	}
	return o.Answer(found, gpus.Optimized(found, o.Screen())...)
}

// follow reports the progress of the optimization: on a terminal, in one line that
// changes. Elsewhere, the answer has the steps.
func (o *optimizeOptions) follow(ctx context.Context, c *client.Client) {
	live, begun := term.NewLive(o.Err), o.Now()
	defer live.Draw()
	query := client.EventQuery{Follow: true, Filter: gpu.EventFilter{Codes: []gpu.EventCode{gpu.EventOptimized}}}
	for e, err := range c.EventsWhere(ctx, query) {
		if err != nil {
			return // the answer comes anyway
		}
		if width, ok := o.LiveWidth(); ok && !e.Time.Before(begun) {
			live.Draw(term.Cut(term.Clean(e.Text), width-1))
		}
	}
}
