package look

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/console"
	"github.com/berth-gpu/berth/internal/report"
	"github.com/berth-gpu/berth/internal/view"
)

type reportOptions struct{ *console.Console }

func newReport(con *console.Console) *cobra.Command {
	o := &reportOptions{con}
	return &cobra.Command{
		Use:   "report",
		Short: "Show how GPUs were used, by whom, and what to do better",
		Long: `Show how each GPU was used in the last ten minutes, what each service holds, had
and waits for, what programs asked for and used, how much energy that took, and
advice: leases that nothing uses or that are too large or too small, requests
that wait, memory under no lease, GPUs that do nothing.

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
  berth config set energy.price_per_kwh=0.32
  berth report --json | jq '.energy.used[] | {user, name, energy_joules}'
  berth report --json | jq -r '.advice[].text'
  berth report --json | jq '.measurements[] | select(.asked_mb > 2 * .peak_mb)'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
}

func (o *reportOptions) run(ctx context.Context) error {
	c, err := o.Daemon(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	answers, err := o.collect(ctx, c)
	if err != nil {
		return err
	}
	all := report.Make(answers, o.Now())
	return o.Answer(all, view.Report(all, o.Screen())...)
}

// reported is how far back a report looks at the samples of devices.
const reported = 10 * time.Minute

// collect asks for everything that a report is made from.
func (o *reportOptions) collect(ctx context.Context, c *client.Client) (report.Answers, error) {
	a := report.Answers{History: map[string][]gpu.Sample{}}
	var err error
	if a.Status, err = c.StatusAll(ctx); err != nil {
		return a, err
	}
	for _, d := range a.Status.GPUs {
		history, err := c.History(ctx, client.HistoryQuery{GPU: d.Device.UUID, Since: o.Now().Add(-reported)})
		if err != nil {
			return a, err
		}
		a.History[d.Device.UUID] = history.Samples
	}
	if a.Available, err = c.Available(ctx); err != nil {
		return a, err
	}
	if a.Leases, err = c.Leases(ctx); err != nil {
		return a, err
	}
	if a.Past, err = c.PastLeases(ctx, client.PastQuery{Limit: 2000}); err != nil {
		return a, err
	}
	if a.Measurements, err = c.Measurements(ctx); err != nil {
		return a, err
	}
	a.Energy, err = c.Energy(ctx)
	if problem := (*api.Problem)(nil); errors.As(err, &problem) && problem.Status == http.StatusNotFound {
		err = nil // the daemon is older
	}
	return a, err
}
