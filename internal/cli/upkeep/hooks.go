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
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) (offers []string, _ cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, console.NoFiles
			}
			for _, h := range console.Known(con, cmd, listHooks).Hooks {
				offers = append(offers, term.Clean(h.Name)+"\t"+term.Clean(h.Kind))
			}
			return offers, console.NoFiles
		},
		RunE: func(cmd *cobra.Command, args []string) error { return testHook(cmd.Context(), con, args[0]) },
	}
}

func testHook(ctx context.Context, con *console.Console, name string) error {
	c, err := con.Daemon(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	got, err := c.Hooks().Test(ctx, name)
	if err != nil {
		return err
	}
	if err := con.Answer(got, view.HookTest(got, con.Screen())); err != nil {
		return err
	}
	if got.Status != "delivered" {
		return console.ErrReported
	}
	return nil
}

func listHooks(c *client.Client, ctx context.Context) (api.Hooks, error) { return c.Hooks().List(ctx) }
