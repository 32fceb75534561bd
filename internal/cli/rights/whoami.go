package rights

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
)

type whoamiOptions struct{ *console.Console }

func newWhoami(con *console.Console) *cobra.Command {
	o := &whoamiOptions{con}
	return &cobra.Command{
		Use:   "whoami",
		Short: "Show who the daemon takes you for, and your role",
		Long: `Show who the daemon takes you for, which role you have, and why: by your user, a
group, a token (BERTH_TOKEN) or a client certificate. If several of them give a
role, you have the highest one. docs/access.md says what each role may do.`,
		Example: "  berth whoami\n  berth whoami --url https://host:8000\n  berth whoami --json | jq -r .role",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
}

func (o *whoamiOptions) run(ctx context.Context) error {
	c, err := o.Daemon(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	me, err := c.Whoami(ctx)
	if err != nil {
		return err
	}
	return o.Answer(me, view.Whoami(me, o.Screen())...)
}
