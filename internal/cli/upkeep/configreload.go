package upkeep

import (
	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
)

func newConfigReload(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "reload",
		Short: "Make the daemon read its configuration file again",
		Long: `Make the daemon read its configuration file again, and print what changed. The
daemon takes the whole file or, if something is wrong with it, nothing, and
says which line is wrong. The section daemon needs a restart.

Changes at run time are stronger than the file: the command names the settings
of the file that they override. "berth config unset" takes them back.`,
		Example: "  berth config reload\n  berth config reload --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return console.Ask(cmd.Context(), con, (*client.Client).ReloadConfig, view.Reloaded)
		},
	}
}
