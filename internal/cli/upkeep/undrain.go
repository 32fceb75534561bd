package upkeep

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
)

type undrainOptions struct{ *console.Console }

func newUndrain(con *console.Console) *cobra.Command {
	o := &undrainOptions{con}
	return &cobra.Command{
		Use:   "undrain GPU",
		Short: "Let a drained GPU be used again",
		Long: `Let a drained GPU be used again. A GPU that is not well stays closed until it is
well: "berth status" shows that. It needs the role operator.`,
		Example:           "  berth undrain 2",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: con.CompleteGPU,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
}

func (o *undrainOptions) run(ctx context.Context, ref string) error {
	c, err := o.Daemon(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	done, err := c.Undrain(ctx, api.UndrainRequest{GPU: gpu.Ref(ref)})
	if err != nil {
		return err
	}
	return o.Answer(done, view.Undrained(done))
}
