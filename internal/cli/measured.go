package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

type reportOptions struct{ *app }

func newReport(a *app) *cobra.Command {
	o := &reportOptions{a}
	return &cobra.Command{
		Use:     "report",
		Short:   "Show what programs asked for, and what they used",
		GroupID: groupLook,
		Long: `Show, for every name that was run under a lease, the memory that the last run
asked for, the most that one of the last ten used on a GPU, and what the next
one gets if it does not say (the peak and a margin). Use is measured once every
monitor_interval, so what is shorter than that may be missed; a run that was
measured less than three times may have used more, and nothing is offered by it
alone. Under MPS a GPU does not say what its programs use.`,
		Example: `  berth report
  berth report --json | jq '.measurements[] | select(.asked_mb > 2 * .peak_mb)'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
}

func (o *reportOptions) run(ctx context.Context) error {
	c, err := o.daemon(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	all, err := c.Measurements(ctx)
	if err != nil {
		return err
	}
	if o.json {
		return o.printJSON(all)
	}
	if len(all.Measurements) == 0 {
		return o.print("Nothing has run under a lease yet.")
	}
	to := o.screen()
	return o.print(measuredTable(all, to.now).lines(to.width, to.painter)...)
}

func measuredTable(all api.Measurements, now time.Time) *table {
	t := &table{columns: []column{
		{title: "NAME", least: 10}, {title: "USER", least: 4}, {title: "RUNS", right: true}, {title: "ASKED", right: true}, {title: "USED", right: true},
		{title: "OF IT", right: true}, {title: "NEXT", right: true}, {title: "TAKES", right: true}, {title: "LAST", right: true},
	}}
	for _, m := range all.Measurements {
		name := m.Name
		if m.Step != "" {
			name += " / " + m.Step
		}
		t.add(cell{text: clean(name)}, cell{text: clean(m.User)}, cell{text: strconv.Itoa(m.Runs)}, cell{text: orDash(m.Asked)}, cell{text: orDash(m.Peak)},
			shareCell(m), cell{text: orDash(m.Next)}, cell{text: takes(m.Seconds)}, cell{text: span(now.Sub(m.Last)) + " ago"})
	}
	return t
}

func orDash(m gpu.MiB) string {
	if m == 0 {
		return "-"
	}
	return m.String()
}

// shareCell is how much of what was asked for was used: too much is a mistake,
// and little is waste.
func shareCell(m api.Measured) cell {
	if m.Asked == 0 || m.Peak == 0 {
		return cell{text: "-"}
	}
	percent := float64(m.Peak) * 100 / float64(m.Asked)
	c := cell{text: fmt.Sprintf("%.0f %%", percent)}
	switch {
	case percent > 100:
		c.colour = red
	case percent < 50:
		c.colour = yellow
	}
	return c
}

// takes is how long a run takes; fractions matter only for short ones.
func takes(seconds float64) string {
	if seconds < 10 {
		return strconv.FormatFloat(seconds, 'f', 1, 64) + " s"
	}
	return span(time.Duration(seconds * float64(time.Second)))
}
