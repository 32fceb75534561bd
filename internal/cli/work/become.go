package work

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/programs"
)

// becomeCommand is the hidden command that waits for the command to become.
const becomeCommand = "become"

func newBecome() *cobra.Command {
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
	err := programs.Obey()
	if errors.Is(err, programs.ErrNoOrder) {
		return console.ErrReported // nobody is left to read it
	}
	return err
}
