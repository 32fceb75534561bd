package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/term"
)

type configCheckOptions struct {
	*app
	file string
}

func newConfigCheck(a *app) *cobra.Command {
	o := &configCheckOptions{app: a}
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Check a configuration file without a daemon",
		Long: `Check a configuration file without a daemon, and report every mistake with its
line. "-" reads standard input.`,
		Example: "  berth config check berth.yaml\n  berth config check - < berth.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			o.file = args[0]
			return o.run()
		},
	}
}

func (o *configCheckOptions) run() error {
	name, text, err := o.read()
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	layer, _ := config.ParseYAML(name, text) // Merge repeats what is wrong, and finds more
	if _, err := config.Merge(layer); err != nil {
		return err
	}
	return o.answer(map[string]any{"file": name, "valid": true}, term.Clean(name)+" is valid")
}

func (o *configCheckOptions) read() (name string, text []byte, err error) {
	if o.file == "-" {
		text, err = io.ReadAll(o.In)
		return "standard input", text, err
	}
	text, err = os.ReadFile(o.file)
	return o.file, text, err
}
