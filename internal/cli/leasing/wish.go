package leasing

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/text/term"
)

// wishFlags adds the flags that choose among the GPUs that fit.
func wishFlags(con *console.Console, cmd *cobra.Command, prefer, policy *string) {
	flags, names := cmd.Flags(), placement.PolicyNames()
	flags.StringVar(prefer, "prefer", "", "take this `GPU` if it has room (index or UUID)")
	flags.StringVar(policy, "policy", "", "choose the GPU by this `POLICY`:\n"+strings.Join(term.Wrap(strings.Join(names, ", "), 52), "\n"))
	console.CompleteFlag(cmd, "prefer", con.CompleteGPU)
	console.CompleteWith(cmd, "policy", names)
}
