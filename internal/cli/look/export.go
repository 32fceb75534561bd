package look

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/text/term"
)

type exportOptions struct {
	*console.Console
	file    string
	format  string
	since   string
	devices string
}

func newExport(con *console.Console) *cobra.Command {
	o := &exportOptions{Console: con}
	cmd := &cobra.Command{
		Use:   "export FILE",
		Short: "Write everything the daemon knows to a file",
		Long: `Write status, history, leases, waiting requests, leases that have ended, what
programs used, batches, configuration and events to a JSON file. If the name of
the file ends in .csv, write the samples as CSV instead. "-" writes to standard
output. The command writes a file whole or not at all.`,
		Example: `  berth export machine.json
  berth export samples.csv --since 10m
  berth export - --format csv | head`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.file = args[0]
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&o.format, "format", "", "write this `FORMAT`: json or csv\n(default: by the name of the file)")
	cmd.Flags().StringVar(&o.since, "since", "", "write what is after this `TIME`, or of the last 10m")
	console.CompleteWith(cmd, "format", []string{"json", "csv"})
	console.DevicesFlag(cmd, &o.devices)
	return cmd
}

func (o *exportOptions) run(ctx context.Context) error {
	if o.format == "" {
		o.format = "json"
		if strings.HasSuffix(strings.ToLower(o.file), ".csv") {
			o.format = "csv"
		}
	}
	if o.format != "json" && o.format != "csv" {
		return console.Usage("--format must be json or csv, not %q", o.format)
	}
	since, err := console.Moment(o.since, o.Now())
	if err != nil {
		return console.Usage("--since %v", err)
	}
	v, err := o.Look(ctx, o.devices)
	if err != nil {
		return err
	}
	defer v.Close()
	all, err := o.collect(ctx, v, since)
	if err != nil {
		return err
	}
	write := all.WriteJSON
	if o.format == "csv" {
		write = all.WriteCSV
	}
	if o.file == "-" {
		return write(o.Out)
	}
	if err := file.Save(o.file, write); err != nil {
		return console.Unread("export", o.file, err)
	}
	return o.sumUp(all)
}

// collect asks for the whole content of the export.
func (o *exportOptions) collect(ctx context.Context, v *console.Source, since time.Time) (*view.Export, error) {
	all := view.NewExport(o.Now())
	var err error
	if all.Status, err = v.StatusAll(ctx); err != nil {
		return nil, err
	}
	for _, d := range all.Status.GPUs {
		history, err := v.History(ctx, client.HistoryQuery{GPU: d.Device.UUID, Since: since})
		if err != nil {
			return nil, err
		}
		all.History = append(all.History, history.Samples...)
	}
	if o.format == "csv" {
		return all, nil
	}
	if err := o.collectLeases(ctx, v, since, all); err != nil {
		return nil, err
	}
	if all.Config, err = v.Config(ctx); err != nil {
		return nil, err
	}
	fields, err := v.ConfigFields(ctx)
	if err != nil {
		return nil, err
	}
	all.Sources = fields.Fields
	for e, err := range v.Events(ctx, 0, false) {
		if err != nil {
			return nil, err
		}
		if !e.Time.Before(since) {
			all.Events = append(all.Events, e)
		}
	}
	return all, nil
}

// collectLeases asks for leases, past leases, waiting requests, measurements of
// programs, and batches.
func (o *exportOptions) collectLeases(ctx context.Context, v *console.Source, since time.Time, all *view.Export) error {
	now, err := v.Leases(ctx)
	if err != nil {
		return err
	}
	all.Leases, all.Waiting = now.Leases, now.Waiting
	past, err := v.PastLeases(ctx, client.PastQuery{Since: since, Limit: 2000})
	if err != nil {
		return err
	}
	measured, err := v.Measurements(ctx)
	if err != nil {
		return err
	}
	batches, err := v.Batches(ctx)
	all.Past, all.Measured, all.Batches = past.Leases, measured.Measurements, batches.Batches
	return err
}

// sumUp describes the content of the file.
func (o *exportOptions) sumUp(all *view.Export) error {
	summary := map[string]any{
		"file": o.file, "format": o.format,
		"gpus": len(all.Status.GPUs), "samples": len(all.History), "events": len(all.Events), "leases": len(all.Leases), "past_leases": len(all.Past),
	}
	return o.Answer(summary, term.Clean(o.file)+": "+all.Summary(o.format == "json"))
}
