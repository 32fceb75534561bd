// Package upkeep holds the commands for administrators of the daemon: they start it,
// configure it, examine it, mend its journal, look after alerts and hooks, and check
// devices or take them out of use.
package upkeep

import (
	"context"

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
func Commands(daemon Daemon) []console.Command {
	return []console.Command{
		console.MakeWith(newServe, daemon, "serve"),
		console.MakeWith(newFront, daemon, "front"),
		console.Make(newConfig, "config"),
		console.MakeWith(newDoctor, daemon, "doctor"),
		console.Make(newCheck, "check"),
		console.Make(newDrain, "drain"),
		console.Make(newUndrain, "undrain"),
		console.Make(newAlerts, "alerts"),
		console.Make(newHooks, "hooks"),
		console.Make(newJournal, "journal"),
		console.Make(newBackup, "backup"),
		console.Make(newRestore, "restore"),
		console.Make(newState, "state"),
		console.Make(newVersion, "version"),
	}
}
