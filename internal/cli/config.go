package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/view"
)

type configOptions struct {
	*app
	devices string
	docs    bool
}

func newConfig(a *app) *cobra.Command {
	o := &configOptions{app: a}
	cmd := &cobra.Command{
		Use:     "config",
		Short:   "Show the configuration, or change it at run time",
		GroupID: groupDaemon,
		Long: `Show every field of the configuration, its value, and where the value comes
from: the default, berth.yaml, the environment, a flag, or a change at run time.`,
		Example: `  berth config
  berth config --docs
  berth config get temp_optimal
  berth config set temp_optimal=60 memory_reserve_mb=1GiB
  berth config unset temp_optimal
  berth config reload
  berth config check berth.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	cmd.Flags().BoolVar(&o.docs, "docs", false, "explain each field")
	devicesFlag(cmd, &o.devices)
	cmd.AddCommand(newConfigGet(a), newConfigSet(a), newConfigUnset(a), newConfigReload(a), newConfigCheck(a))
	return cmd
}

func (o *configOptions) run(ctx context.Context) error {
	v, err := o.look(ctx, o.devices)
	if err != nil {
		return err
	}
	defer v.close()
	fields, err := v.ConfigFields(ctx)
	if err != nil {
		return err
	}
	to := o.uncut()
	lines := view.ConfigFields(fields.Fields, to.Width, to.Painter)
	if o.docs {
		lines = view.ConfigDocs(lines, fields.Fields, o.screen())
	}
	return o.answer(fields, lines...)
}

// findField finds a field by its name, or by its name without "gpu." in front.
func findField(fields []api.ConfigField, name string) (api.ConfigField, error) {
	var near []string
	name = config.FieldName(name)
	for _, f := range fields {
		if f.Field == name || f.Field == "gpu."+name {
			return f, nil
		}
		if strings.Contains(f.Field, name) {
			near = append(near, f.Field)
		}
	}
	hint := "berth config lists all fields"
	if len(near) > 0 && name != "" {
		hint = "did you mean " + strings.Join(near, ", ") + "?"
	}
	return api.ConfigField{}, &hintedError{usage("the configuration has no field %q", name), hint}
}
