package upkeep

import (
	"context"
	"strings"

	"github.com/berth-gpu/berth/internal/text/words"
	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/term"
)

func newAlerts(con *console.Console) *cobra.Command {
	cmd := console.Show(con, &cobra.Command{
		Use:   "alerts",
		Short: "Show which alerts fire, and acknowledge them",
		Long: `Show the alerts that are pending or fire. The daemon evaluates the rules that
come with berth, and your own (alerts.rules). What fires is an event, so hooks
get it.`,
		Example: `  berth alerts
  berth alerts ack GPUTemperatureHigh --hours 8 --comment "a new fan comes"
  berth alerts unack GPUTemperatureHigh`,
	}, (*client.Client).Alerts, view.Alerts)
	cmd.AddCommand(newAck(con), newUnack(con))
	return cmd
}

func newAck(con *console.Console) *cobra.Command {
	var wanted api.AcknowledgeRequest
	cmd := onAlert(con, &cobra.Command{
		Use:   "ack FINGERPRINT|NAME",
		Short: "Say that you take care of an alert",
		Long: `Say that you take care of an alert, or of every alert with a name. Hooks get
nothing more about it until the hours are over or the alert ends. It survives a
restart of the daemon. It needs the role operator.`,
		Example: `  berth alerts ack GPUTemperatureHigh
  berth alerts ack 1baac5012083a3d6 --hours 24 --comment "the fan is ordered"`,
		PreRunE: func(*cobra.Command, []string) error {
			if wanted.Hours < 0.01 || wanted.Hours > 720 {
				return console.Usage("--hours must be from 0.01 to 720")
			}
			return nil
		},
	}, func(c *client.Client, ctx context.Context, fingerprint string) (api.Alert, error) {
		return c.Acknowledge(ctx, fingerprint, wanted)
	})
	flags := cmd.Flags()
	flags.Float64Var(&wanted.Hours, "hours", 4, "for this many `HOURS`")
	flags.StringVar(&wanted.Comment, "comment", "", "tell others what you do, in this `TEXT`")
	return cmd
}

func newUnack(con *console.Console) *cobra.Command {
	return onAlert(con, &cobra.Command{
		Use:     "unack FINGERPRINT|NAME",
		Short:   "Take an acknowledgement back",
		Example: `  berth alerts unack GPUTemperatureHigh`,
	}, (*client.Client).Unacknowledge)
}

// onAlert returns a command that has the daemon change the alert with a fingerprint, or all
// alerts with a name.
func onAlert(con *console.Console, cmd *cobra.Command, do func(c *client.Client, ctx context.Context, fingerprint string) (api.Alert, error)) *cobra.Command {
	cmd.ValidArgsFunction = completeAlert(con)
	return console.Act(con, cmd, func(ctx context.Context, c *client.Client, args []string) (done api.Alerts, err error) {
		which := args[0]
		all, err := c.Alerts(ctx)
		if err != nil {
			return done, err
		}
		for _, a := range all.Alerts {
			if a.Fingerprint != strings.ToLower(which) && a.Alert != which {
				continue
			}
			changed, err := do(c, ctx, a.Fingerprint)
			if err != nil {
				return done, err
			}
			done.Alerts = append(done.Alerts, changed)
		}
		if len(done.Alerts) == 0 {
			_, err = do(c, ctx, which) // the daemon says that there is no such alert
			var names []string
			for _, a := range all.Alerts {
				names = append(names, a.Alert, a.Fingerprint)
			}
			if near, ok := words.Nearest(which, names); ok && err != nil {
				err = console.Hinted(err, "did you mean "+near+"?")
			}
		}
		return done, err
	}, view.Acknowledged)
}

// completeAlert offers the present alerts.
func completeAlert(con *console.Console) cobra.CompletionFunc {
	return console.Offer(con, (*client.Client).Alerts, func(all api.Alerts) (offers []string) {
		for _, a := range all.Alerts {
			offers = append(offers, term.Clean(a.Alert), term.Clean(a.Fingerprint)+"\t"+term.Clean(a.Alert))
		}
		return offers
	})
}

func newHooks(con *console.Console) *cobra.Command {
	cmd := console.Show(con, &cobra.Command{
		Use:   "hooks",
		Short: "Show the hooks and what came of them, and test one",
		Long: `Show the hooks: which events each of them gets, how many wait for it, and what
came of the last delivery. It needs the role operator.`,
		Example: `  berth hooks
  berth hooks test pager`,
	}, listHooks, view.Hooks)
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
		Example:           `  berth hooks test pager`,
		ValidArgsFunction: console.OfferEach(con, listHooks, func(all api.Hooks) []api.Hook { return all.Hooks }, func(h api.Hook) (name, about string) { return h.Name, h.Kind }),
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
