package rights

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/term"
)

func newSessions(con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "List who is signed in on the page, and end sessions",
		Long: `List your sessions on the page: the role of each, whether it was begun with a
link of "berth open" or with a token, when it began, when it was last used, and
when it ends. With the role admin, you see the sessions of everybody.`,
		Example: "  berth sessions\n  berth sessions end 34c9da2fcf7dd83d",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return console.Ask(cmd.Context(), con, listSessions, view.Sessions)
		},
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "end ID",
		Short: "End a session at once",
		Long: `End a session at once: whoever has the page open there has to sign in again.
With the role admin, you can end the session of anybody. Leases stay.`,
		Example: "  berth sessions end 34c9da2fcf7dd83d",
		Args:    cobra.ExactArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) (offers []string, _ cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, console.NoFiles
			}
			for _, s := range console.Known(con, cmd, listSessions).Sessions {
				offers = append(offers, term.Clean(s.ID)+"\t"+term.Clean(s.User))
			}
			return offers, console.NoFiles
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "" {
				return console.Usage("the id of the session is empty: berth sessions names all of them")
			}
			return console.Ask(cmd.Context(), con, func(c *client.Client, ctx context.Context) (api.Session, error) {
				return c.Sessions().End(ctx, args[0])
			}, view.SessionEnded)
		},
	})
	return cmd
}

func listSessions(c *client.Client, ctx context.Context) (api.Sessions, error) {
	return c.Sessions().List(ctx)
}
