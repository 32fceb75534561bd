package look

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
)

type statusOptions struct {
	*console.Console
	gpu     string
	devices string
	watch   time.Duration // 0 to show once
	across  console.Across
}

func newStatus(con *console.Console) *cobra.Command {
	o := &statusOptions{Console: con}
	cmd := &cobra.Command{
		Use:   "status [GPU]",
		Short: "Show every GPU, or one in detail",
		Long: `Show the state, load, memory, temperature, power and slots of every GPU, who
holds how much of it, and why a GPU is not well. The memory bar shows used
memory, and lighter the memory that is leased beyond that. A wide screen also
shows the curves of load and temperature over the last five minutes. With a GPU
(index or UUID), show everything about it.

With --kubernetes or --urls, show the GPUs of several machines in one table, and
which pods hold them. A machine that does not answer is a row that says so, and
the exit code is 1 then.`,
		Example: `  berth status
  berth status 0
  berth status --watch
  berth status --watch=500ms
  berth status --kubernetes
  berth status --urls http://a:8000,http://b:8000
  berth status --json | jq '.gpus[].state'`,
		ValidArgsFunction: con.GPUs(),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch len(args) {
			case 2:
				return console.Usage("status takes one GPU, not %q and %q", args[0], args[1])
			case 1:
				o.gpu = args[0]
			}
			return o.run(cmd.Context())
		},
	}
	console.WatchFlag(cmd, &o.watch)
	console.DevicesFlag(cmd, &o.devices)
	console.AcrossFlags(cmd, &o.across)
	return cmd
}

func (o *statusOptions) run(ctx context.Context) error {
	if o.across.Any() {
		return o.runAcross(ctx)
	}
	v, err := o.Look(ctx, o.devices)
	if err != nil {
		return err
	}
	defer v.Close()
	return o.Tell(ctx, o.watch, func(ctx context.Context) (console.Shown, error) { return o.ask(ctx, v) })
}

// runAcross shows the devices of several machines.
func (o *statusOptions) runAcross(ctx context.Context) error {
	if o.gpu != "" || o.devices != "" {
		return console.Usage("neither a GPU nor --devices can be chosen on several machines")
	}
	nodes, err := o.Nodes(o.across)
	if err != nil {
		return err
	}
	defer nodes.Close()
	return o.TellNodes(ctx, o.across.Interval(o.watch), nodes, func(all api.Nodes) console.Shown {
		return console.Shown{Answer: all, Lines: (&view.NodesStatus{Nodes: all}).Lines}
	})
}

// ask returns the answer to show.
func (o *statusOptions) ask(ctx context.Context, v *console.Source) (console.Shown, error) {
	if o.gpu != "" {
		one, err := v.StatusWithLeases(ctx, o.gpu)
		if err != nil {
			return console.Shown{}, err
		}
		leasable, err := v.Available(ctx)
		return console.Shown{Answer: one, Lines: (&view.Device{Status: one, Leasable: view.LeasableOf(leasable, one.Device.UUID)}).Lines}, err
	}
	leasable := make(chan api.Available, 1)
	failed := make(chan error, 1)
	go func() { // beside the larger question: who types the command waits for both
		answer, err := v.Available(ctx)
		leasable <- answer
		failed <- err
	}()
	all, err := o.all(ctx, v)
	shown := &view.Status{StatusAll: all, Leasable: <-leasable, Local: v.Local}
	return console.Shown{Answer: all, Lines: shown.Lines}, cmp.Or(err, <-failed)
}

// all asks for every device, with curves if there is room for them: they come in the
// same answer, and need no other question.
func (o *statusOptions) all(ctx context.Context, v *console.Source) (api.StatusAll, error) {
	if !o.JSON && o.Screen().Width >= view.CurvesFrom {
		return v.StatusAllWithCurves(ctx, view.CurvePoints)
	}
	return v.StatusAllWithLeases(ctx)
}
