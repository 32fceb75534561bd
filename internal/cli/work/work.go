// Package work holds the commands that put GPUs to work: they plan and run pipelines,
// and push the records of a batch through workers.
package work

import (
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/leasing"
)

// Commands returns the commands for pipelines and batches.
func Commands(become leasing.Become) []console.Command {
	return []console.Command{
		console.Make(newPlan, "plan"),
		console.Make(newRun, "run"),
		console.Make(newWork, "work"),
		console.MakeWith(newBecome, become, becomeCommand),
	}
}
