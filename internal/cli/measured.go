package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/view"
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
	return o.print(view.Measurements(all, o.screen())...)
}
