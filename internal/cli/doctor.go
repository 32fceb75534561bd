package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/doctor"
	"github.com/berth-gpu/berth/internal/term"
	"github.com/berth-gpu/berth/internal/words"
)

type doctorOptions struct {
	*app
	file string
}

func newDoctor(a *app) *cobra.Command {
	o := &doctorOptions{app: a}
	cmd := &cobra.Command{
		Use:     "doctor",
		Short:   "Find out what is wrong, and what to do about it",
		GroupID: groupDaemon,
		Long: `Examine the system, the GPUs and their drivers, the configuration and the
daemon. Report what is there, what is missing, and what to do about it. The exit
code is 1 if something is broken. A machine without a GPU is not broken.`,
		Example: "  berth doctor\n  berth doctor --json | jq '.[] | select(.grade==\"broken\")'",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	cmd.Flags().StringVar(&o.file, "config", "", "check this configuration `FILE` instead of the usual one")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	return cmd
}

func (o *doctorOptions) run(ctx context.Context) error {
	machine := doctor.Doctor{
		Root: "/", Version: o.Version, Probe: o.Probe,
		Settings: func() (*config.Settings, error) { return o.Settings(o.file) },
		Daemon:   func() (doctor.Daemon, error) { return o.client() },
	}
	findings := machine.Examine(ctx)
	if err := o.show(findings); err != nil {
		return err
	}
	if doctor.Count(findings, doctor.Broken) > 0 {
		return errReported
	}
	return nil
}

// mark returns how a finding is marked on a terminal.
func mark(g doctor.Grade) (string, term.Colour) {
	switch g {
	case doctor.Fine:
		return "✓", term.Green
	case doctor.Notice:
		return "!", term.Yellow
	}
	return "✗", term.Red
}

func (o *doctorOptions) show(findings []doctor.Finding) error {
	if o.json {
		return o.printJSON(findings)
	}
	to := o.screen()
	var lines []string
	for _, f := range findings {
		sign, c := mark(f.Grade)
		lines = append(lines, to.Hang(c, sign+fmt.Sprintf(" %-11s", term.Clean(f.Topic)), term.CleanLines(f.Text)))
		if f.Next != "" {
			lines = append(lines, to.Hang(term.Plain, "             → ", term.Clean(f.Next)))
		}
	}
	summary := "Nothing is broken"
	if n := doctor.Count(findings, doctor.Broken); n > 0 {
		summary = words.Count(n, "thing") + " broken"
	}
	if n := doctor.Count(findings, doctor.Notice); n > 0 {
		summary += ", " + words.Count(n, "note")
	}
	return o.print(append(lines, "", summary+".")...)
}
