// Package upkeep holds the commands for administrators of the daemon: they start it,
// configure it, examine it, mend its journal, look after alerts and hooks, and check
// devices or take them out of use.
package upkeep

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/desk/doctor"
)

// Daemon is the code of the daemon, which only some programs with these commands
// contain.
type Daemon struct {
	// Serve runs the daemon until ctx ends.
	Serve func(ctx context.Context, o ServeOptions) error

	// Front takes requests for services until ctx ends.
	Front func(ctx context.Context, o FrontOptions) error

	// Probe examines drivers and their libraries.
	Probe func(ctx context.Context) []doctor.Finding
}

// Commands returns the commands for the daemon.
func Commands(con *console.Console, daemon Daemon) []*cobra.Command {
	return []*cobra.Command{newServe(con, daemon), newFront(con, daemon), newConfig(con), newDoctor(con, daemon), newCheck(con), newDrain(con), newUndrain(con), newAlerts(con), newHooks(con), newJournal(con), newBackup(con), newRestore(con), newState(con), newVersion(con)}
}
