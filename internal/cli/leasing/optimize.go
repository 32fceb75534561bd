package leasing

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/words"
)

func newOptimize(con *console.Console) *cobra.Command {
	var body api.Optimize
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
		ValidArgsFunction: con.Services(),
		RunE: func(cmd *cobra.Command, args []string) error {
			service, err := serviceOf(args)
			if err != nil {
				return err
			}
			body.Service = service
			return console.AskByIndex(cmd.Context(), con, func(c *client.Client, ctx context.Context) (api.Optimization, error) {
				defer con.FollowEvents(ctx, c, gpu.EventFilter{Codes: []gpu.EventCode{gpu.EventOptimized}})()
				return c.Optimize(ctx, body)
			}, view.GPUs.Optimized)
		},
	}
	cmd.Flags().BoolVar(&body.DryRun, "dry-run", false, "only say what would be done")
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

type loopOptions struct {
	*console.Console
	interval console.Seconds
	body     api.Optimize
	ask      func(context.Context) (api.Optimization, error)
	answered bool // the daemon has answered once
}

func newLoop(con *console.Console) *cobra.Command {
	o := &loopOptions{Console: con, interval: console.Seconds{Plain: true}}
	o.ask = o.optimize
	cmd := &cobra.Command{
		Use:   "loop [SERVICE]",
		Short: "Run berth optimize again and again",
		Long: `Run berth optimize now and then after every interval, and print a line for each
round. It goes on while the daemon restarts, and until you interrupt it.

To have the daemon do it by itself, set optimization.interval and
optimization.memory_threshold.`,
		Example:           "  berth loop --interval 300\n  berth loop --interval 10m embedder\n  berth loop --interval 300 --json | jq -c '.rungs[].freed_mb'",
		ValidArgsFunction: con.Services(),
		RunE: func(cmd *cobra.Command, args []string) error {
			service, err := serviceOf(args)
			if err != nil {
				return err
			}
			o.body.Service = service
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().Var(&o.interval, "interval", "`TIME` from the end of a round to the next one, as in\n300 or 5m (default 300s)")
	cmd.Flags().BoolVar(&o.body.DryRun, "dry-run", false, "only say what would be done")
	return cmd
}

// The limits of the time between two rounds.
const (
	leastInterval   = time.Second
	longestInterval = 30 * 24 * time.Hour
)

func (o *loopOptions) run(ctx context.Context) error {
	interval := time.Duration(o.interval.Or(300) * float64(time.Second))
	if interval < leastInterval || interval > longestInterval {
		return console.Usage("--interval must be between 1s and 30d, not %s", o.interval.String())
	}
	for {
		if err := o.round(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(interval):
		}
	}
}

// round optimizes once. It returns an error if the next round would fail in the same
// way, and otherwise reports a failure on Err.
func (o *loopOptions) round(ctx context.Context) error {
	found, err := o.ask(ctx)
	if err == nil {
		o.answered = true
		o.Back()
	}
	problem := (*api.Problem)(nil)
	switch {
	case err == nil && o.JSON:
		return o.PrintJSONLine(found)
	case err == nil:
		return o.Print(o.Now().Format(time.TimeOnly) + "  " + view.Freed(found))
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !o.answered && !errors.As(err, &problem): // there is no daemon
		return err
	case errors.As(err, &problem) && problem.Status < http.StatusInternalServerError && problem.Status != http.StatusConflict && problem.Status != http.StatusTooManyRequests:
		return err
	case errors.As(err, &problem):
		_, err = fmt.Fprintln(o.Err, "berth: this round did nothing: "+problem.Detail)
		return err
	}
	o.Lost(err)
	return nil
}

// optimize asks the daemon over a new connection: the daemon may have restarted since
// the last round.
func (o *loopOptions) optimize(ctx context.Context) (api.Optimization, error) {
	c, err := o.Client()
	if err != nil {
		return api.Optimization{}, err
	}
	defer c.Close()
	return c.Optimize(ctx, o.body)
}
