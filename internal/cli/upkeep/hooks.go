package upkeep

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/term"
)

func newHooks(con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hooks",
		Short: "Show the hooks and what came of them, and test one",
		Long: `Show the hooks: which events each of them gets, how many wait for it, and what
came of the last delivery. It needs the role operator.`,
		Example: `  berth hooks
  berth hooks test pager`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return console.Ask(cmd.Context(), con, listHooks, view.Hooks)
		},
	}
	cmd.AddCommand(newHooksTest(con))
	return cmd
}

func newHooksTest(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "test NAME",
		Short: "Send a test to a hook, and say what came of it",
		Long: `Send one event to a hook at once, signed and in the way of every other. It is
not tried again. Its code is hook and its data say "test": true.

The exit code is 0 if the hook got it, 1 if it did not, and 4 if there is no
such hook. It needs the role admin.`,
		Example: `  berth hooks test pager`,
		Args:    cobra.ExactArgs(1),
		ValidArgsFunction: console.Offer(con, listHooks, func(all api.Hooks) (offers []string) {
			for _, h := range all.Hooks {
				offers = append(offers, term.Clean(h.Name)+"\t"+term.Clean(h.Kind))
			}
			return offers
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			return con.With(cmd.Context(), func(c *client.Client) error {
				got, err := c.Hooks().Test(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return con.Verdict(got.Status == "delivered", got, view.HookTest(got, con.Screen()))
			})
		},
	}
}

func listHooks(c *client.Client, ctx context.Context) (api.Hooks, error) { return c.Hooks().List(ctx) }
