package rights

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
)

// Agents serves a program that acts for the user, on the standard input and output, until
// the input ends. With acts, that program may change something. The caller passes it in:
// its libraries would slow down the start of every command that links them.
type Agents func(ctx context.Context, con *console.Console, acts bool) error

func newMCP(con *console.Console, serve Agents) *cobra.Command {
	acts := false
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Let a coding assistant look at GPUs and jobs",
		Long: `Speak the Model Context Protocol on the standard input and output, so that a
coding assistant can see the GPUs, who waits and why, jobs and their logs, and
ask about measurements. The assistant has your rights and no others.

With --acts it may also submit jobs in your name and cancel yours. The daemon
notes with each act which program asked, as that program calls itself.`,
		Example: `  berth mcp
  berth mcp --acts
  claude mcp add berth -- berth mcp`,
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), con, acts) },
	}
	cmd.Flags().BoolVar(&acts, "acts", false, "let the assistant submit and cancel jobs")
	return cmd
}
