package look

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/history/report"
	"github.com/berth-gpu/berth/internal/history/report/collect"
	"github.com/berth-gpu/berth/internal/history/report/page"
)

type reportOptions struct {
	*console.Console
	since, until   string
	html, markdown string
}

func newReport(con *console.Console) *cobra.Command {
	o := &reportOptions{Console: con}
	cmd := &cobra.Command{
		Use:   "report [flags]",
		Short: "Show how GPUs were used, by whom, and what to do better",
		Long: `Show how each GPU was used in the last ten minutes, what each service holds, had
and waits for, what programs asked for and used, how much energy that took, and
advice: leases that nothing uses or that are too large or too small, requests
that wait, memory under no lease, GPUs that do nothing.

With --since, show what happened since then: use, waste, waiting, throttling,
faults and energy, per GPU, user, service and program. The numbers come from the
past that the daemon keeps. The report says how much of the time it covers.

--html writes the same with pictures as one file that needs nothing else.
--markdown prints it with pictures made of text, for a mail. Both show the last
seven days unless --since says otherwise.

Of programs, show for every name that ran under a lease the memory that the last
run asked for, the most that one of the last ten runs used on a GPU, and what
the next run gets if it does not ask for an amount (the peak and a margin).

berth measures once every monitor_interval and may miss shorter peaks. It offers
nothing for a name with a single run that it measured less than three times.
Under MPS, a GPU does not report what its programs use.

Of energy, show for every GPU how much programs under leases used, how much
others used, and how much the GPU draws by itself, since berth first measured
it; and for whom. With energy.price_per_kwh, show what it cost.`,
		Example: `  berth report
  berth report --since 7d
  berth report --since 2026-11-01 --until 2026-12-01 --html november.html
  berth report --since 24h --markdown | mail -s "GPUs yesterday" team
  berth config set energy.price_per_kwh=0.32
  berth report --json | jq '.energy.used[] | {user, name, energy_joules}'
  berth report --json | jq -r '.advice[].text'
  berth report --json | jq '.measurements[] | select(.asked_mb > 2 * .peak_mb)'
  berth report --json --since 7d | jq '.period.users[] | {name, lease_hours}'`,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	cmd.Flags().StringVar(&o.since, "since", "", "show what happened since this `TIME`, or the last 7d")
	cmd.Flags().StringVar(&o.until, "until", "", "end at this `TIME`, or 1h ago (default: now)")
	cmd.Flags().StringVar(&o.html, "html", "", "write a page with pictures to this `FILE`, or to -")
	cmd.Flags().StringVar(&o.markdown, "markdown", "", "print Markdown, or write it to =`FILE`")
	cmd.Flags().Lookup("markdown").NoOptDefVal = "-"
	return cmd
}

// period returns the period of the report, or nil for the last minutes.
func (o *reportOptions) period() (*report.Period, error) {
	switch {
	case o.html != "" && o.markdown != "":
		return nil, console.Usage("give --html or --markdown, not both")
	case (o.html != "" || o.markdown != "") && o.JSON:
		return nil, console.Usage("give --json, --html or --markdown, not two of them")
	case o.since == "" && o.until == "" && o.html == "" && o.markdown == "":
		return nil, nil
	}
	now := o.Now()
	until, err := console.Moment(o.until, now)
	if err != nil {
		return nil, console.Usage("--until %v", err)
	}
	if until.IsZero() || until.After(now) {
		until = now
	}
	since, err := console.Moment(o.since, now)
	if err != nil {
		return nil, console.Usage("--since %v", err)
	}
	if since.IsZero() {
		since = until.Add(-collect.Usual)
	}
	switch length := until.Sub(since); {
	case length < collect.Least:
		return nil, console.Usage("--since must be at least a minute before %s", map[bool]string{true: "now", false: "--until"}[o.until == ""])
	case length > collect.Longest:
		return nil, console.Usage("--since must be at most %d days before the end", int(collect.Longest.Hours()/24))
	}
	return &report.Period{From: since, Until: until}, nil
}

func (o *reportOptions) run(ctx context.Context) error {
	period, err := o.period()
	if err != nil {
		return err
	}
	return o.With(ctx, func(c *client.Client) error { return o.report(ctx, c, period) })
}

// report asks for the report of a period, or of the last minutes without one, and writes
// it.
func (o *reportOptions) report(ctx context.Context, c *client.Client, period *report.Period) error {
	all, err := collect.Report(ctx, c, period, o.Now())
	if err != nil {
		return err
	}
	switch {
	case o.html != "":
		return o.write(o.html, &all, page.HTML)
	case o.markdown != "":
		return o.write(o.markdown, &all, page.Markdown)
	}
	return o.Answer(all, view.Report(all, o.Screen())...)
}

// write writes a report to a file, whole or not at all, or to standard output.
func (o *reportOptions) write(path string, r *api.Report, format func(io.Writer, *api.Report) error) error {
	if path == "-" {
		return format(o.Out, r)
	}
	if err := file.Save(path, func(w io.Writer) error { return format(w, r) }); err != nil {
		return console.Unread("report", path, err)
	}
	return nil
}
