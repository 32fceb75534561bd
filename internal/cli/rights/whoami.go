package rights

import (
	"context"
	"fmt"
	osuser "os/user"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
)

func newWhoami(con *console.Console) *cobra.Command {
	return console.Show(con, &cobra.Command{
		Use:   "whoami",
		Short: "Show who the daemon takes you for, and your role",
		Long: `Show who the daemon takes you for, which role you have, and why: by your user, a
group, a token (BERTH_TOKEN) or a client certificate. If several of them give a
role, you have the highest one. berth help access says what each role may do.`,
		Example: "  berth whoami\n  berth whoami --url https://host:8000\n  berth whoami --json | jq -r .role",
	}, (*client.Client).Whoami, view.Whoami)
}

func newQuota(con *console.Console) *cobra.Command {
	return console.Watch(con, &cobra.Command{
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
		ValidArgsFunction: con.Users(),
	}, func(args []string) error {
		switch {
		case len(args) > 1:
			return console.Usage("quota takes one user, not %q and %q", args[0], args[1])
		case len(args) == 1 && args[0] == "":
			return console.Usage("the user is empty: leave it out to see your own limits")
		}
		return nil
	}, func(ctx context.Context, c *client.Client, args []string) (console.Shown, error) {
		user := strings.Join(args, "") // nobody, or one
		quota, err := c.Quota(ctx, user)
		if console.IsProblem(err, "unknown_user") && !con.Remote() {
			if group, missed := osuser.LookupGroup(user); missed == nil {
				err = console.Hinted(fmt.Errorf("%s is a group, and limits count for each of its members: %w", group.Name, console.Reworded(err, "a group has no quota of its own")), "name a member, as in berth quota ada; berth config shows what berth.yaml sets for groups."+group.Name)
			}
		}
		return console.Shown{Answer: quota, Lines: (&view.Quota{Quota: quota}).Lines}, err
	})
}
