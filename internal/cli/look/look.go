// Package look holds the read-only commands: they show what the GPUs do, what happened,
// and how they were used.
//
// They change nothing.
package look

import (
	"github.com/berth-gpu/berth/internal/cli/console"
)

// Commands returns the read-only commands.
func Commands(top Top) []console.Command {
	return []console.Command{
		console.Make(newStatus, "status"),
		console.MakeWith(newTop, top, "top"),
		console.Make(newEvents, "events"),
		console.Make(newExport, "export"),
		console.Make(newReport, "report"),
		console.Make(newQuery, "query"),
	}
}
