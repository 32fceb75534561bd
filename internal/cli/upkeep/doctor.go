package upkeep

import (
	"fmt"
	"os"
	"os/user"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/desk/doctor"
	"github.com/berth-gpu/berth/internal/job/keeper"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

func newDoctor(con *console.Console, daemon Daemon) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find out what is wrong, and what to do about it",
		Long: `Examine the system, the GPUs and their drivers, the configuration and the
daemon. Report what is there, what is missing, and what to do about it. The exit
code is 1 if something is broken. A machine without a GPU is not broken.`,
		Example: "  berth doctor\n  berth doctor --json | jq '.[] | select(.grade==\"broken\")'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			machine := doctor.Doctor{Root: "/", Version: con.Version, UID: os.Getuid(), OfJobs: keeper.Check}
			if u, err := user.Current(); err == nil {
				machine.User, machine.Home = u.Username, u.HomeDir
			}
			if daemon.Probe != nil {
				machine.Probed = daemon.Probe(cmd.Context())
			}
			machine.Settings, machine.Misconfigured = con.Settings(file)
			if c, err := con.Client(); err != nil {
				machine.Unreachable = err
			} else {
				defer c.Close()
				machine.Daemon = c
			}
			found := machine.Examine(cmd.Context())
			return con.Verdict(doctor.Count(found, doctor.Broken) == 0, found, findings(found, con.Screen())...)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "check this configuration `FILE` instead of the usual one")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	return cmd
}

// findings shows each finding with a mark, and counts those that are not well.
func findings(all []doctor.Finding, to term.Screen) []string {
	var lines []string
	broken, notes := 0, 0
	for _, f := range all {
		mark, c := "✗", term.Red
		switch f.Grade {
		case doctor.Fine:
			mark, c = "✓", term.Green
		case doctor.Notice:
			mark, c = "!", term.Yellow
			notes++
		default:
			broken++
		}
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
	return append(lines, "", summary+".")
}
