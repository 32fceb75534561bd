package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/term"
)

type configGetOptions struct {
	*app
	devices string
}

func newConfigGet(a *app) *cobra.Command {
	o := &configGetOptions{app: a}
	cmd := &cobra.Command{
		Use:     "get FIELD",
		Short:   "Show the value of one field",
		Long:    `Show the value of one field and nothing else. You may leave out "gpu." in front.`,
		Example: "  berth config get temp_optimal\n  berth config get daemon.socket --json",
		Args:    cobra.ExactArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, noFiles
			}
			return a.completeField(cmd, "", ""), noFiles
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	devicesFlag(cmd, &o.devices)
	return cmd
}

func (o *configGetOptions) run(ctx context.Context, field string) error {
	v, err := o.look(ctx, o.devices)
	if err != nil {
		return err
	}
	defer v.close()
	fields, err := v.ConfigFields(ctx)
	if err != nil {
		return err
	}
	f, err := findField(fields.Fields, field)
	if err != nil {
		return err
	}
	return o.answer(f, term.Clean(f.Value))
}
