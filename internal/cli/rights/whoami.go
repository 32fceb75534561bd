package rights

import (
	"context"
	"errors"
	"fmt"
	osuser "os/user"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
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
role, you have the highest one. berth help access says what each role may do.`,
		Example: "  berth whoami\n  berth whoami --url https://host:8000\n  berth whoami --json | jq -r .role",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return console.Ask(cmd.Context(), con, (*client.Client).Whoami, view.Whoami)
		},
	}
}

// groupError is the error of the daemon, which does not know the user, in other words.
type groupError struct{ cause error }

func (*groupError) Error() string   { return "a group has no quota of its own" }
func (e *groupError) Unwrap() error { return e.cause }

func newQuota(con *console.Console) *cobra.Command {
	var watch time.Duration // 0 to show once
	cmd := &cobra.Command{
		Use:   "quota [USER]",
		Short: "Show your limits, and what you use of them",
		Long: `Show each limit, how much of it you use now, and which entry of the
configuration sets it: your own, that of a group, or the default. Limits that
the members of a group have together are listed with the name of the group.

With a USER, show the limits of that user: a login name, a user id, token:NAME
or cert:NAME. For others than yourself you need the role operator.`,
		Example: `  berth quota
  berth quota alice
  berth quota token:ci --json
  berth quota --watch`,
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: con.Users(),
		RunE: func(cmd *cobra.Command, args []string) error {
			user := ""
			others, err := console.TakeInterval(args, &watch)
			switch {
			case err != nil:
				return err
			case len(others) > 1:
				return console.Usage("quota takes one user, not %q and %q", others[0], others[1])
			case len(others) == 1 && others[0] == "":
				return console.Usage("the user is empty: leave it out to see your own limits")
			case len(others) == 1:
				user = others[0]
			}
			return con.With(cmd.Context(), func(c *client.Client) error {
				return con.Tell(cmd.Context(), watch, func(ctx context.Context) (console.Shown, error) {
					quota, err := c.Quota(ctx, user)
					if problem := (*api.Problem)(nil); errors.As(err, &problem) && problem.Code == "unknown_user" && !con.Remote() {
						if group, missed := osuser.LookupGroup(user); missed == nil {
							err = console.Hinted(fmt.Errorf("%s is a group, and limits count for each of its members: %w", group.Name, &groupError{err}), "name a member, as in berth quota ada; berth config shows what berth.yaml sets for groups."+group.Name)
						}
					}
					return &view.Quota{Quota: quota}, err
				})
			})
		},
	}
	console.WatchFlag(cmd, &watch)
	return cmd
}
