package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/device"
)

// usageError says what is wrong with a command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usage(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// isUsage reports whether err is about the command line, and not about what
// became of it. That is
//
//   - whatever goes wrong before the command runs: unknown commands and flags,
//     values that a flag does not take, too many arguments or too few,
//   - what a command says with usage,
//   - values of flags that the configuration or the devices do not take,
//   - what the daemon calls a wrong request or a wrong setting, because it knows
//     policies, conditions and settings better than the command does.
//
// Something that is not there, such as a device or a lease, is a refusal.
func (a *app) isUsage(err error) bool {
	said, named := (*usageError)(nil), (*device.SpecError)(nil)
	settings, problem := (*config.Error)(nil), (*api.Problem)(nil)
	switch {
	case !a.started, errors.As(err, &said):
		return true
	case errors.As(err, &named):
		return a.devicesGiven
	case errors.As(err, &settings):
		return !slices.ContainsFunc(settings.Complaints, func(c config.Complaint) bool { return !strings.HasPrefix(c.Source, "flag --") })
	case errors.As(err, &problem):
		return problem.Code == "invalid_request" || problem.Code == "invalid_config"
	}
	return false
}

// refuseStrayWords makes the commands that only hold others say that a word is
// no command of theirs. They would show their help otherwise, as if nothing were
// wrong.
func refuseStrayWords(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch {
		case cmd.Name() == "help":
			cmd.Args = func(_ *cobra.Command, args []string) error {
				if found, rest, err := root.Find(args); found == nil || err != nil || len(rest) > 0 {
					return usage("there is no command %q to help with", strings.Join(args, " "))
				}
				return nil
			}
		case !cmd.Runnable():
			cmd.Args = cobra.NoArgs
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}
