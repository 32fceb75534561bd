package upkeep

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/text/term"
)

func newConfigSet(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "set FIELD=VALUE...",
		Short: "Change fields at run time",
		Long: `Change fields of the configuration in the running daemon: all but those of the
section daemon. The daemon takes all the changes or none. They hold at once,
and after a restart. "berth config unset" takes them back.

You may leave out "gpu." in front. devices.UUID.FIELD sets a field of one
device, services.NAME.FIELD and hooks.NAME.FIELD one of a service or a hook.`,
		Example: `  berth config set temp_optimal=60
  berth config set memory_reserve_mb=1GiB monitor_interval=500ms
  berth config set devices.GPU-5a9c.temp_critical=88
  berth config set services.embedder.max_memory_mb=8GiB unknown_services=refuse
  berth config set services.embedder.users='[alice, bob]'`,
		Args: cobra.MinimumNArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return completeField(con, cmd, "=", ""), console.NoFiles | cobra.ShellCompDirectiveNoSpace
		},
		RunE: func(cmd *cobra.Command, args []string) error { return setFields(cmd.Context(), con, args) },
	}
}

// setFields makes changes, each written as FIELD=VALUE, and prints the resulting
// fields.
func setFields(ctx context.Context, con *console.Console, changes []string) error {
	body, names, err := config.Assignments(changes)
	if err != nil {
		return console.Usage("%v", err)
	}
	c, err := con.Daemon(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	section, err := c.SetConfig(ctx, body)
	if err != nil {
		return err
	}
	if con.JSON {
		return con.PrintJSON(section)
	}
	fields, err := c.ConfigFields(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		line := name + " is no longer set at run time"
		if f, err := findField(fields.Fields, name); err == nil {
			line = fmt.Sprintf("%s = %s (%s)", term.Clean(f.Field), term.Clean(f.Value), term.Clean(f.Source))
		}
		if err := con.Print(line); err != nil {
			return err
		}
	}
	return nil
}
