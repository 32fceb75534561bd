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
		Short:   "Show how much memory programs asked for and used",
		GroupID: groupLook,
		Long: `Show, for every name that ran under a lease, the memory that the last run asked
for, the most that one of the last ten runs used on a GPU, and what the next run
gets if it does not ask for an amount (the peak and a margin).

berth measures once every monitor_interval and may miss shorter peaks. It offers
nothing for a name with a single run that it measured less than three times.
Under MPS, a GPU does not report what its programs use.`,
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
	return o.answer(all, view.Measurements(all, o.screen())...)
}
