package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/flagvalue"
	"github.com/berth-gpu/berth/internal/view"
)

type eventsOptions struct {
	*app
	devices  string
	follow   bool
	since    string
	codes    []string
	gpus     []string
	leases   []string
	severity string
}

func newEvents(a *app) *cobra.Command {
	o := &eventsOptions{app: a}
	cmd := &cobra.Command{
		Use:     "events",
		Short:   "Show what happened",
		GroupID: groupLook,
		Long: `Show the events that the daemon keeps, oldest first. With --follow, show
new ones too until you interrupt the command. It makes a broken connection again
and loses no event.

You may give --code, --gpu and --lease several times: an event must match one of
each. Whatever you choose, an event with the code gap tells you where events are
missing. docs/events.md lists the codes.`,
		Example: `  berth events --since 1h
  berth events --follow --severity warning
  berth events --gpu 0 --code throttle --code resume
  berth events --lease train-7 --follow
  berth events --follow --json | jq -r .code`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.BoolVarP(&o.follow, "follow", "f", false, "wait for new events until interrupted")
	flags.StringVar(&o.since, "since", "", "show events after this `TIME`, or of the last 10m")
	flags.StringSliceVar(&o.codes, "code", nil, "show events with this `CODE`, as in lease_expired")
	flags.StringSliceVar(&o.gpus, "gpu", nil, "show events about this `GPU` (index or UUID)")
	flags.StringArrayVar(&o.leases, "lease", nil, "show events about the lease with this `ID`")
	flags.StringVar(&o.severity, "severity", "", "show events of at least this `LEVEL`: info, warning,\ncritical")
	completeWith(cmd, "severity", severities())
	completeWith(cmd, "code", gpu.EventCodes())
	completeFlag(cmd, "lease", a.completeLease)
	completeFlag(cmd, "gpu", a.completeGPU)
	devicesFlag(cmd, &o.devices)
	return cmd
}

// severities returns the severities from least to most.
func severities() []gpu.Severity { return []gpu.Severity{gpu.Note, gpu.Warning, gpu.Serious} }

func (o *eventsOptions) run(ctx context.Context) error {
	since, err := flagvalue.Moment(o.since, o.Now())
	if err != nil {
		return usage("--since %v", err)
	}
	filter, err := o.filter()
	if err != nil {
		return err
	}
	v, err := o.look(ctx, o.devices)
	if err != nil {
		return err
	}
	defer v.close()
	for e, err := range v.EventsWhere(ctx, client.EventQuery{Follow: o.follow, Filter: filter}) {
		if err != nil {
			if o.follow && ctx.Err() != nil {
				return nil // interrupted, which is how following ends
			}
			return err
		}
		o.back()
		if e.Time.Before(since) {
			continue
		}
		if err := o.show(e); err != nil {
			return err
		}
	}
	return nil
}

// filter returns what the flags choose.
func (o *eventsOptions) filter() (gpu.EventFilter, error) {
	f := gpu.EventFilter{GPUs: o.gpus, Leases: o.leases, Severity: gpu.Severity(o.severity)}
	if o.severity != "" && !slices.Contains(severities(), f.Severity) {
		return f, usage("--severity must be info, warning or critical, not %q", o.severity)
	}
	for _, code := range o.codes {
		if !slices.Contains(gpu.EventCodes(), gpu.EventCode(code)) {
			return f, &hintedError{usage("there is no event code %q", code), "the codes are: " + strings.Join(texts(gpu.EventCodes()), ", ")}
		}
		f.Codes = append(f.Codes, gpu.EventCode(code))
	}
	return f, nil
}

func (o *eventsOptions) show(e gpu.Event) error {
	if o.json {
		return o.printJSONLine(e)
	}
	return o.print(view.Event(e, o.uncut()))
}
