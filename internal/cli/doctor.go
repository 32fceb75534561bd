package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/term"
	"github.com/berth-gpu/berth/internal/words"
)

type doctorOptions struct {
	*app
	file string
	root string // where the files of the system are; "/" but in tests
}

func newDoctor(a *app) *cobra.Command {
	o := &doctorOptions{app: a, root: "/"}
	cmd := &cobra.Command{
		Use:     "doctor",
		Short:   "Find out what is missing, and what to do about it",
		GroupID: groupDaemon,
		Long: `Look at the system, the GPUs and their drivers, the configuration and the
daemon, and say what was found, what is missing and what to do. The exit code is
1 if something is broken; a machine without a GPU is not.`,
		Example: "  berth doctor\n  berth doctor --json | jq '.[] | select(.grade==\"broken\")'",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	cmd.Flags().StringVar(&o.file, "config", "", "configuration `FILE` to check instead of the usual one")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	return cmd
}

func (o *doctorOptions) run(ctx context.Context) error {
	findings := o.findings(ctx)
	broken, notes := 0, 0
	for _, f := range findings {
		switch f.Grade {
		case Broken:
			broken++
		case Notice:
			notes++
		}
	}
	if err := o.show(findings, broken, notes); err != nil {
		return err
	}
	if broken > 0 {
		return errReported
	}
	return nil
}

// findings looks at everything, in the order in which it depends on each other.
func (o *doctorOptions) findings(ctx context.Context) []Finding {
	found := o.system()
	found = append(found, o.hardware()...)
	if o.Probe != nil {
		found = append(found, o.Probe(ctx)...)
	}
	settings, finding := o.configuration()
	found = append(found, finding)
	running, daemon := o.daemonFindings(ctx)
	found = append(found, daemon...)
	if settings != nil && !running { // a daemon that runs knows better, and may have its state elsewhere
		found = append(found, o.stateDir(settings.Config.Daemon.StateDir), o.leases(settings.Config.Daemon.StateDir))
	}
	return append(found, o.unit())
}

func (o *doctorOptions) configuration() (*config.Settings, Finding) {
	settings, err := o.Settings(o.file)
	if err != nil {
		return nil, Finding{"config", Broken, err.Error(), "mend it, and check it with: berth config check FILE"}
	}
	return settings, Finding{Topic: "config", Grade: Fine, Text: "valid"}
}

func (o *doctorOptions) show(findings []Finding, broken, notes int) error {
	if o.json {
		return o.printJSON(findings)
	}
	to := o.screen()
	var lines []string
	for _, f := range findings {
		mark, c := f.Grade.mark()
		lines = append(lines, to.Hang(c, mark+fmt.Sprintf(" %-11s", term.Clean(f.Topic)), term.CleanLines(f.Text)))
		if f.Next != "" {
			lines = append(lines, to.Hang(term.Plain, "             → ", term.Clean(f.Next)))
		}
	}
	summary := "Nothing is broken"
	if broken > 0 {
		summary = words.Count(broken, "thing") + " broken"
	}
	if notes > 0 {
		summary += ", " + words.Count(notes, "note")
	}
	return o.print(append(lines, "", summary+".")...)
}
