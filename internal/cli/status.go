package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

type statusOptions struct {
	*app
	gpu     string
	devices string
	watch   time.Duration // 0: once
}

func newStatus(a *app) *cobra.Command {
	o := &statusOptions{app: a}
	cmd := &cobra.Command{
		Use:     "status [GPU]",
		Short:   "Show every GPU, or one in detail",
		GroupID: groupLook,
		Long: `Show every GPU with its state, load, memory, temperature and power, and for
those that are not well the reason. With a GPU (index or UUID), show all that is
known about it.`,
		Example: `  berth status
  berth status 0
  berth status --watch
  berth status --watch=500ms
  berth status --json | jq '.gpus[].state'`,
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: a.completeGPU,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.take(args); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().DurationVar(&o.watch, "watch", 0, "show it again every `INTERVAL`")
	cmd.Flags().Lookup("watch").NoOptDefVal = "1s"
	devicesFlag(cmd, &o.devices)
	return cmd
}

// take reads the arguments. A flag with an optional value takes it only after
// "=", so in "--watch 2s" the interval comes as an argument. It is told from a
// GPU by its unit.
func (o *statusOptions) take(args []string) error {
	for _, arg := range args {
		interval, err := time.ParseDuration(arg)
		switch {
		case o.watch != 0 && err == nil && strings.TrimRight(arg, "0123456789") != "":
			o.watch = interval
		case o.gpu == "":
			o.gpu = arg
		default:
			return usage("status takes one GPU, not %q and %q", o.gpu, arg)
		}
	}
	if o.watch != 0 && o.watch < shortestWatch {
		return usage("--watch %s is too short: at least %s", o.watch, shortestWatch)
	}
	return nil
}

func (o *statusOptions) run(ctx context.Context) error {
	v, err := o.view(ctx, o.devices)
	if err != nil {
		return err
	}
	defer v.close()
	if o.watch != 0 {
		return o.repeat(ctx, v)
	}
	status, err := o.ask(ctx, v)
	if err != nil {
		return err
	}
	if o.json {
		return o.printJSON(status.answer())
	}
	return o.print(status.lines(o.screen(), v.local)...)
}

// ask gets what is to be shown.
func (o *statusOptions) ask(ctx context.Context, v *view) (shown, error) {
	if o.gpu != "" {
		one, err := v.Status(ctx, o.gpu)
		return &oneDevice{one}, err
	}
	all, err := v.StatusAll(ctx)
	return &allDevices{all}, err
}

// shown is an answer and how it looks.
type shown interface {
	answer() any
	lines(to screen, local bool) []string
}
