// Package look holds the read-only commands: they show what the GPUs do, what happened,
// and how they were used.
//
// They change nothing.
package look

import (
	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
)

// Commands returns the read-only commands.
func Commands(con *console.Console, top Top) []*cobra.Command {
	return []*cobra.Command{newStatus(con), newTop(con, top), newEvents(con), newRecord(con), newExport(con), newReport(con), newQuery(con)}
}
