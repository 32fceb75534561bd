package rights

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
)

func newTokenRevoke(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke NAME",
		Short: "End a token",
		Long: `End a token. The daemon refuses it from then on, also on connections that are
open. Leases that its users hold stay.`,
		Example:           "  berth token revoke grafana",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeToken(con),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "" {
				return console.Usage("the name of the token is empty: berth token list names all of them")
			}
			return console.Ask(cmd.Context(), con, func(c *client.Client, ctx context.Context) (api.Token, error) {
				return c.RevokeToken(ctx, args[0])
			}, view.TokenRevoked)
		},
	}
}
