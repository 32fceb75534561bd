package upkeep

import (
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/text/term"
)

func newConfigCheck(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Check a configuration file without a daemon",
		Long: `Check a configuration file without a daemon, and report every mistake with its
line. "-" reads standard input.`,
		Example: "  berth config check berth.yaml\n  berth config check - < berth.yaml",
		Args:    cobra.ExactArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return checkConfig(con, args[0]) },
	}
}

func checkConfig(con *console.Console, file string) error {
	text, err := con.Read(file, math.MaxInt64)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	name := console.NameOf(file)
	layer, _ := config.ParseYAML(name, text) // Merge repeats the errors, and finds more
	if _, err := config.Merge(layer); err != nil {
		return err
	}
	return con.Answer(map[string]any{"file": name, "valid": true}, term.Clean(name)+" is valid")
}
