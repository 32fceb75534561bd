// Package work holds the commands that put GPUs to work: they plan and run pipelines,
// and push the records of a batch through workers.
package work

import (
	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
)

// Commands returns the commands for pipelines and batches.
func Commands(con *console.Console) []*cobra.Command {
	return []*cobra.Command{newPlan(con), newRun(con), newWork(con), newBecome()}
}
