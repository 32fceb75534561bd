// Package leasing holds the commands about leases: those that take, change and end a
// lease, and those that show who holds what and why a request waits.
package leasing

import (
	"github.com/berth-gpu/berth/internal/cli/console"
)

// Become makes this process a program. It returns only if that fails.
type Become func(file string, command, environ []string) error

// Commands returns the commands about leases.
func Commands(become Become) []console.Command {
	return []console.Command{
		console.MakeWith(newExec, become, "exec"),
		console.Make(newAllocate, "allocate"),
		console.Make(newDeallocate, "deallocate"),
		console.Make(newLeases, "leases"),
		console.Make(newRelease, "release"),
		console.Make(newRenew, "renew"),
		console.Make(newResize, "resize"),
		console.Make(newPace, "pace"),
		console.Make(newPark, "park"),
		console.Make(newResume, "resume"),
		console.Make(newOptimize, "optimize"),
		console.Make(newLoop, "loop"),
		console.Make(newExplain, "explain"),
		console.Make(newAdopt, "adopt"),
	}
}
