package upkeep

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/desk/doctor"
)

type doctorOptions struct {
	*console.Console
	daemon Daemon
	file   string
}

func newDoctor(con *console.Console, daemon Daemon) *cobra.Command {
	o := &doctorOptions{Console: con, daemon: daemon}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find out what is wrong, and what to do about it",
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
		Root: "/", Version: o.Version, Probe: o.daemon.Probe,
		Settings: func() (*config.Settings, error) { return o.Settings(o.file) },
		Daemon:   func() (doctor.Daemon, error) { return o.Client() },
	}
	findings := machine.Examine(ctx)
	shown := make([]view.Finding, len(findings))
	for i, f := range findings {
		shown[i] = view.Finding{Topic: f.Topic, Grade: string(f.Grade), Text: f.Text, Next: f.Next}
	}
	if err := o.Answer(findings, view.Findings(shown, o.Screen())...); err != nil {
		return err
	}
	if doctor.Count(findings, doctor.Broken) > 0 {
		return console.ErrReported
	}
	return nil
}
