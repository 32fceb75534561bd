package rights

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
)

type tokenRevokeOptions struct{ *console.Console }

func newTokenRevoke(con *console.Console) *cobra.Command {
	o := &tokenRevokeOptions{con}
	return &cobra.Command{
		Use:   "revoke NAME",
		Short: "End a token",
		Long: `End a token. The daemon refuses it from then on, also on connections that are
open. Leases that its users hold stay.`,
		Example:           "  berth token revoke grafana",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeToken(con),
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
}

func (o *tokenRevokeOptions) run(ctx context.Context, name string) error {
	if name == "" {
		return console.Usage("the name of the token is empty: berth token list names all of them")
	}
	c, err := o.Daemon(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	revoked, err := c.RevokeToken(ctx, name)
	if err != nil {
		return err
	}
	return o.Answer(revoked, view.TokenRevoked(revoked))
}
