package upkeep

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/text/term"
)

type configOptions struct {
	*console.Console
	devices string
	docs    bool
}

func newConfig(con *console.Console) *cobra.Command {
	o := &configOptions{Console: con}
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the configuration, or change it at run time",
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
	console.DevicesFlag(cmd, &o.devices)
	cmd.AddCommand(newConfigGet(con), newConfigSet(con), newConfigUnset(con), newConfigReload(con), newConfigCheck(con))
	return cmd
}

func (o *configOptions) run(ctx context.Context) error {
	v, err := o.Look(ctx, o.devices)
	if err != nil {
		return err
	}
	defer v.Close()
	fields, err := v.ConfigFields(ctx)
	if err != nil {
		return err
	}
	to := o.Uncut()
	lines := view.ConfigFields(fields.Fields, to.Width, to.Painter)
	if o.docs {
		lines = view.ConfigDocs(lines, fields.Fields, o.Screen())
	}
	return o.Answer(fields, lines...)
}

// completeField offers the fields of the configuration in force that come from a source
// (from any if it is empty), each with a suffix.
func completeField(con *console.Console, cmd *cobra.Command, suffix, source string) (offers []string) {
	for _, f := range console.Known(con, cmd, (*client.Client).ConfigFields).Fields {
		if source != "" && f.Source != source {
			continue
		}
		offers = append(offers, strings.TrimPrefix(f.Field, "gpu.")+suffix+"\t"+term.Clean(f.Doc))
	}
	return offers
}

// findField finds a field by its name, with or without the leading "gpu.".
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
	return api.ConfigField{}, console.Hinted(console.Usage("the configuration has no field %q", name), hint)
}
