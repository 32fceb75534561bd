package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/crew"
	"github.com/berth-gpu/berth/internal/runner"
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
	order, err := runner.Await()
	switch {
	case errors.Is(err, runner.ErrNoOrder):
		return errReported // nobody is left who would want to know
	case err != nil:
		return err
	}
	return crew.Become(order.Path, order.Args, order.Env)
}
