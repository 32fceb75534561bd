package look

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/internal/text/words"
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
	return console.Ask(ctx, o.Console, func(c *client.Client, ctx context.Context) (api.QueryResult, error) {
		answer, err := o.ask(ctx, c, at)
		if err == nil && !o.JSON && answer.Type != "scalar" && answer.Type != "string" && len(answer.Series) == 0 {
			answer.Infos = append(answer.Infos, o.missed(ctx, c))
		}
		return answer, misunderstood(err)
	}, view.Query)
}

// misunderstood says in words of the command line what is wrong with an expression.
func misunderstood(err error) error {
	problem := (*api.Problem)(nil)
	if !errors.As(err, &problem) || problem.Code != "bad_data" {
		return err
	}
	where, what, found := strings.Cut(problem.Detail, ": parse error: ")
	if !found {
		return err
	}
	at := ""
	if column := position().FindStringSubmatch(where); column != nil {
		at = " at character " + column[1]
	}
	return console.Hinted(console.Usage("the expression is wrong%s: %s", at, what), "for example: berth query 'max_over_time(gpu_power_usage_watts[1h])'")
}

var (
	position = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`1:(\d+)$`) })

	// within finds the parts of an expression that name no metric: labels, texts, times.
	within = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\{[^}]*\}|\[[^\]]*\]|"[^"]*"|'[^']*'|\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)`)
	})

	// names finds words in an expression, and whether a parenthesis follows.
	names = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(\(?)`) })
)

// missed says what to do if nothing matches an expression: which metric was probably
// meant, or where to look.
func (o *queryOptions) missed(ctx context.Context, c *client.Client) string {
	known, err := c.MetricNames(ctx)
	if err != nil {
		return "/metrics lists the metrics."
	}
	for _, found := range names().FindAllStringSubmatch(within().ReplaceAllString(o.expr, " "), -1) {
		base := strings.TrimSuffix(strings.TrimSuffix(found[1], ":max"), ":min")
		if found[2] != "" || slices.Contains(known, base) || slices.Contains(operators, found[1]) {
			continue
		}
		return fmt.Sprintf("There is no metric %s: %s", found[1], words.Suggest(base, known, "/metrics lists them."))
	}
	return "The metrics exist. Look further back with --range 1h, or leave labels out."
}

// operators has the words of PromQL that name no metric, beside functions.
var operators = []string{"and", "or", "unless", "bool", "offset", "by", "without", "on", "ignoring", "inf", "nan", "Inf", "NaN", "atan2"}

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
