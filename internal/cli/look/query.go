package look

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
)

type queryOptions struct {
	*console.Console
	expr string
	over console.Seconds
	step console.Seconds
	at   string
}

func newQuery(con *console.Console) *cobra.Command {
	o := &queryOptions{Console: con}
	cmd := &cobra.Command{
		Use:   "query EXPR",
		Short: "Ask about the past, in PromQL",
		Long: `Evaluate an expression of PromQL, the language of Prometheus, on what the daemon
has measured, and show the values as a table. With --range, evaluate it over a
time and show small graphs, each with its least, its most and its last value.

The metrics are those of /metrics. --json prints the answer as Prometheus writes
it, in the field data.`,
		Example: `  berth query gpu_temperature_celsius
  berth query 'sum by (user) (gpu_user_memory_leased_mb)' --range 7d
  berth query 'max_over_time(gpu_power_usage_watts[1h])' --time 2h
  berth query 'rate(gpu_energy_joules_total[5m])' --range 1h --step 15s --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.expr = args[0]
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().Var(&o.over, "range", "show the last 90s, 10m or 7d")
	cmd.Flags().Var(&o.step, "step", "show a point every 15s or 5m (default: 120 points)")
	cmd.Flags().StringVar(&o.at, "time", "", "ask about this `TIME`, or 10m ago; end --range there")
	return cmd
}

// fewestSteps is the default number of points in a graph.
const fewestSteps = 120

func (o *queryOptions) run(ctx context.Context) error {
	at, err := console.Moment(o.at, o.Now())
	if err != nil {
		return console.Usage("--time %v", err)
	}
	if o.step.Known() && !o.over.Known() {
		return console.Usage("--step needs --range")
	}
	if o.over.Known() && o.over.Duration() <= 0 || o.step.Known() && o.step.Duration() <= 0 {
		return console.Usage("--range and --step must be more than 0")
	}
	return console.Ask(ctx, o.Console, func(c *client.Client, ctx context.Context) (api.QueryResult, error) { return o.ask(ctx, c, at) }, view.Query)
}

func (o *queryOptions) ask(ctx context.Context, c *client.Client, at time.Time) (api.QueryResult, error) {
	if !o.over.Known() {
		return c.Query(ctx, o.expr, at)
	}
	if at.IsZero() {
		at = o.Now()
	}
	step := o.step.Duration()
	if step == 0 {
		step = max((o.over.Duration() / fewestSteps).Round(time.Second), time.Second)
	}
	return c.QueryRange(ctx, o.expr, client.QueryRange{From: at.Add(-o.over.Duration()), To: at, Step: step})
}
