package rights

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
)

type quotaOptions struct {
	*console.Console
	user  string
	watch time.Duration // 0 to show once
}

func newQuota(con *console.Console) *cobra.Command {
	o := &quotaOptions{Console: con}
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
		ValidArgsFunction: con.CompleteUser,
		RunE: func(cmd *cobra.Command, args []string) error {
			others, err := console.TakeInterval(args, &o.watch)
			switch {
			case err != nil:
				return err
			case len(others) > 1:
				return console.Usage("quota takes one user, not %q and %q", others[0], others[1])
			case len(others) == 1 && others[0] == "":
				return console.Usage("the user is empty: leave it out to see your own limits")
			case len(others) == 1:
				o.user = others[0]
			}
			return o.run(cmd.Context())
		},
	}
	console.WatchFlag(cmd, &o.watch)
	return cmd
}

func (o *quotaOptions) run(ctx context.Context) error {
	c, err := o.Daemon(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return o.Tell(ctx, o.watch, func(ctx context.Context) (console.Shown, error) {
		quota, err := c.Quota(ctx, o.user)
		return &view.Quota{Quota: quota}, err
	})
}
