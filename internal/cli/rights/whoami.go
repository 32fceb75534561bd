package rights

import (
	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
)

func newWhoami(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "whoami",
		Short: "Show who the daemon takes you for, and your role",
		Long: `Show who the daemon takes you for, which role you have, and why: by your user, a
group, a token (BERTH_TOKEN) or a client certificate. If several of them give a
role, you have the highest one. docs/guide/access.md says what each role may do.`,
		Example: "  berth whoami\n  berth whoami --url https://host:8000\n  berth whoami --json | jq -r .role",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return console.Ask(cmd.Context(), con, (*client.Client).Whoami, view.Whoami)
		},
	}
}
