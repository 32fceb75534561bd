package rights

import (
	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
)

func newTokenList(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the tokens, without their secrets",
		Long: `List the tokens that the daemon accepts: the role of each, the service that it
is for, who created it and when, when it expires, and when somebody last used
it. The token of the configuration is in the list too.`,
		Example: "  berth token list\n  berth token list --json | jq -r '.tokens[] | select(.role==\"admin\") | .name'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return console.Ask(cmd.Context(), con, (*client.Client).Tokens, view.Tokens)
		},
	}
}
