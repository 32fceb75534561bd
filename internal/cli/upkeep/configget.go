package upkeep

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/text/term"
)

type configGetOptions struct {
	*console.Console
	devices string
}

func newConfigGet(con *console.Console) *cobra.Command {
	o := &configGetOptions{Console: con}
	cmd := &cobra.Command{
		Use:     "get FIELD",
		Short:   "Show the value of one field",
		Long:    `Show the value of one field and nothing else. You may leave out "gpu." in front.`,
		Example: "  berth config get temp_optimal\n  berth config get daemon.socket --json",
		Args:    cobra.ExactArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, console.NoFiles
			}
			return completeField(con, cmd, "", ""), console.NoFiles
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	console.DevicesFlag(cmd, &o.devices)
	return cmd
}

func (o *configGetOptions) run(ctx context.Context, field string) error {
	v, err := o.Look(ctx, o.devices)
	if err != nil {
		return err
	}
	defer v.Close()
	fields, err := v.ConfigFields(ctx)
	if err != nil {
		return err
	}
	f, err := findField(fields.Fields, field)
	if err != nil {
		return err
	}
	return o.Answer(f, term.Clean(f.Value))
}
