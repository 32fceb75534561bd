package upkeep

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
)

func newUndrain(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "undrain GPU",
		Short: "Let a drained GPU be used again",
		Long: `Let a drained GPU be used again. A GPU that is not well stays closed until it is
well: "berth status" shows that. It needs the role operator.`,
		Example:           "  berth undrain 2",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: con.CompleteGPU,
		RunE: func(cmd *cobra.Command, args []string) error {
			return console.Ask(cmd.Context(), con, func(c *client.Client, ctx context.Context) (api.Drained, error) {
				return c.Undrain(ctx, api.UndrainRequest{GPU: gpu.Ref(args[0])})
			}, view.Undrained)
		},
	}
}
