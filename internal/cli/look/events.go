package look

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
)

type eventsOptions struct {
	*console.Console
	devices  string
	follow   bool
	since    string
	codes    []string
	gpus     []string
	leases   []string
	severity string
}

func newEvents(con *console.Console) *cobra.Command {
	o := &eventsOptions{Console: con}
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what happened",
		Long: `Show the events that the daemon keeps, oldest first. With --follow, show
new ones too until you interrupt the command. It makes a broken connection again
and loses no event.

You may give --code, --gpu and --lease several times: an event must match one of
each. Whatever you choose, an event with the code gap tells you where events are
missing. berth help event-codes lists the codes.`,
		Example: `  berth events --since 1h
  berth events --follow --severity warning
  berth events --gpu 0 --code throttle --code resume
  berth events --lease train-7 --follow
  berth events --follow --json | jq -r .code`,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.BoolVarP(&o.follow, "follow", "f", false, "wait for new events until interrupted")
	flags.StringVar(&o.since, "since", "", "show events after this `TIME`, or of the last 10m")
	flags.StringSliceVar(&o.codes, "code", nil, "show events with this `CODE`, as in lease_expired")
	flags.StringSliceVar(&o.gpus, "gpu", nil, "show events about this `GPU` (index or UUID)")
	flags.StringArrayVar(&o.leases, "lease", nil, "show events about the lease with this `ID` or USER/ID")
	flags.StringVar(&o.severity, "severity", "", "show events of at least this `LEVEL`: info, warning,\ncritical")
	console.CompleteWith(cmd, "severity", severities())
	console.CompleteWith(cmd, "code", gpu.EventCodes())
	console.CompleteFlag(cmd, "lease", con.Leases())
	console.CompleteFlag(cmd, "gpu", con.GPUs())
	console.DevicesFlag(cmd, &o.devices)
	return cmd
}

// severities returns the severities from lowest to highest.
func severities() []gpu.Severity { return []gpu.Severity{gpu.Note, gpu.Warning, gpu.Serious} }

func (o *eventsOptions) run(ctx context.Context) error {
	since, err := console.Moment(o.since, o.Now())
	if err != nil {
		return console.Usage("--since %v", err)
	}
	filter, err := o.filter()
	if err != nil {
		return err
	}
	v, err := o.Look(ctx, o.devices)
	if err != nil {
		return err
	}
	defer v.Close()
	for e, err := range v.EventsWhere(ctx, client.EventQuery{Follow: o.follow, Filter: filter}) {
		if err != nil {
			if o.follow && ctx.Err() != nil {
				return nil // interrupted, which is how following ends
			}
			return err
		}
		o.Back()
		if e.Time.Before(since) {
			continue
		}
		if err := console.AnswerOne(o.Console, e, view.Event); err != nil {
			return err
		}
	}
	return nil
}

// filter returns the filter that the flags select.
func (o *eventsOptions) filter() (gpu.EventFilter, error) {
	f := gpu.EventFilter{GPUs: o.gpus, Leases: o.leases, Severity: gpu.Severity(o.severity)}
	if o.severity != "" && !slices.Contains(severities(), f.Severity) {
		return f, console.Near(console.Usage("--severity must be info, warning or critical, not %q", o.severity), o.severity, console.Texts(severities()), "for example: berth events --severity warning")
	}
	for _, code := range o.codes {
		if !slices.Contains(gpu.EventCodes(), gpu.EventCode(code)) {
			return f, console.Near(console.Usage("there is no event code %q", code), code, console.Texts(gpu.EventCodes()), "write one of these codes: "+strings.Join(console.Texts(gpu.EventCodes()), ", "))
		}
		f.Codes = append(f.Codes, gpu.EventCode(code))
	}
	return f, nil
}
