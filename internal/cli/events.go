package cli

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/view"
)

type eventsOptions struct {
	*app
	devices  string
	follow   bool
	since    string
	severity string
}

func newEvents(a *app) *cobra.Command {
	o := &eventsOptions{app: a}
	cmd := &cobra.Command{
		Use:     "events",
		Short:   "Show what happened",
		GroupID: groupLook,
		Long: `Show the events that the daemon keeps, oldest first, and with --follow those to
come. A connection that breaks is made again, without losing an event.`,
		Example: `  berth events --since 1h
  berth events --follow --severity warning
  berth events --follow --json | jq -r .code`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.BoolVarP(&o.follow, "follow", "f", false, "wait for more until interrupted")
	flags.StringVar(&o.since, "since", "", "only those after this `TIME`, or for the last 10m")
	flags.StringVar(&o.severity, "severity", "", "at least this `LEVEL`: info, warning, critical")
	_ = cmd.RegisterFlagCompletionFunc("severity", cobra.FixedCompletions(
		[]string{string(gpu.Note), string(gpu.Warning), string(gpu.Serious)}, cobra.ShellCompDirectiveNoFileComp))
	devicesFlag(cmd, &o.devices)
	return cmd
}

// severities go from least to most.
func severities() []gpu.Severity { return []gpu.Severity{gpu.Note, gpu.Warning, gpu.Serious} }

func (o *eventsOptions) run(ctx context.Context) error {
	since, err := moment("--since", o.since, o.Now())
	if err != nil {
		return err
	}
	least := slices.Index(severities(), cmp.Or(gpu.Severity(o.severity), gpu.Note))
	if least < 0 {
		return usage("--severity is info, warning or critical, not %q", o.severity)
	}
	v, err := o.look(ctx, o.devices)
	if err != nil {
		return err
	}
	defer v.close()
	for e, err := range v.Events(ctx, 0, o.follow) {
		if err != nil {
			if o.follow && ctx.Err() != nil {
				return nil // interrupted, which is how following ends
			}
			return err
		}
		o.back()
		if e.Time.Before(since) || slices.Index(severities(), e.Severity) < least {
			continue
		}
		if err := o.show(e); err != nil {
			return err
		}
	}
	return nil
}

func (o *eventsOptions) show(e gpu.Event) error {
	if o.json {
		return o.printJSONLine(e)
	}
	to := o.screen()
	if !o.isTerminal() {
		to.Width = math.MaxInt // one line each, for whoever searches in them
	}
	return o.print(view.Event(e, to))
}

// moment reads a time, or how long before now it was; empty is the beginning
// of time.
func moment(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	for _, format := range []string{time.RFC3339, time.DateTime, "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(format, text, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usage("%s %q is neither how long ago, as in 10m, nor a time, as in %s", flag, text, now.Format(time.RFC3339))
}
