package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/crew"
)

// becomeCommand is what this program is called with to wait until it is told
// what to be.
const becomeCommand = "become"

func newBecome(*app) *cobra.Command {
	return &cobra.Command{
		Use:     becomeCommand,
		Short:   "Wait for the order of berth plan --run, and become that command",
		Example: "  berth plan plate.yaml --run -- python3 well.py",
		Hidden:  true,
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return become() },
	}
}

func become() error {
	err := crew.Obey()
	if errors.Is(err, crew.ErrNoOrder) {
		return errReported // nobody is left who would want to know
	}
	return err
}
