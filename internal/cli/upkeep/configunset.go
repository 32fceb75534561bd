package upkeep

import (
	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/config"
)

func newConfigUnset(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "unset FIELD...",
		Short: "Take back changes at run time",
		Long: `Take back what "berth config set" or the API changed, so that the configuration
file decides again, or the default. The daemon takes back all the fields or
none. A section or the name of a service, hook or device stands for all of it.`,
		Example: `  berth config unset temp_optimal
  berth config unset services.embedder devices.GPU-5a9c`,
		Args: cobra.MinimumNArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return completeField(con, cmd, "", config.SavedAtRunTime), console.NoFiles
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			for i, field := range args {
				args[i] = field + "=null"
			}
			return setFields(cmd.Context(), con, args)
		},
	}
}
