// Package leasing holds the commands about leases: those that take, change and end a
// lease, and those that show who holds what and why a request waits.
package leasing

import (
	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
)

// Become makes this process a program. It returns only if that fails.
type Become func(file string, command, environ []string) error

// Commands returns the commands about leases.
func Commands(con *console.Console, become Become) []*cobra.Command {
	return []*cobra.Command{
		newExec(con, become), newAllocate(con), newDeallocate(con), newLeases(con), newRelease(con), newRenew(con), newResize(con), newPace(con), newPark(con), newResume(con),
		newOptimize(con), newLoop(con), newExplain(con), newAdopt(con),
	}
}
