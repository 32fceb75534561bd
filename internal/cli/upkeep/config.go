package upkeep

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/text/words"
	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/text/term"
)

func newConfig(con *console.Console) *cobra.Command {
	var devices string
	var docs bool
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			return readFields(cmd.Context(), con, devices, func(all api.ConfigFields) error {
				to := con.Uncut()
				lines := view.ConfigFields(all.Fields, to.Width, to.Painter)
				if docs {
					lines = view.ConfigDocs(lines, all.Fields, con.Screen())
				}
				return con.Answer(all, lines...)
			})
		},
	}
	cmd.Flags().BoolVar(&docs, "docs", false, "explain each field")
	console.DevicesFlag(cmd, &devices)
	cmd.AddCommand(newConfigGet(con), newConfigSet(con), newConfigUnset(con), newConfigReload(con), newConfigCheck(con))
	return cmd
}

// readFields calls do with the fields of the configuration in force.
func readFields(ctx context.Context, con *console.Console, devices string, do func(api.ConfigFields) error) error {
	v, err := con.Look(ctx, devices)
	if err != nil {
		return err
	}
	defer v.Close()
	all, err := v.ConfigFields(ctx)
	if err != nil {
		return err
	}
	return do(all)
}

// completeField returns a completion that offers the fields of the configuration in force
// that come from a source (from any if it is empty), each with a suffix.
func completeField(con *console.Console, suffix, source string, how cobra.ShellCompDirective) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) (offers []string, _ cobra.ShellCompDirective) {
		for _, f := range console.Known(con, cmd, (*client.Client).ConfigFields).Fields {
			if source == "" || f.Source == source {
				offers = append(offers, strings.TrimPrefix(f.Field, "gpu.")+suffix+"\t"+term.Clean(f.Doc))
			}
		}
		return offers, how
	}
}

// findField finds a field by its name, with or without the leading "gpu.".
func findField(fields []api.ConfigField, name string) (api.ConfigField, error) {
	var near, all []string
	name = config.FieldName(name)
	for _, f := range fields {
		if f.Field == name || f.Field == "gpu."+name {
			return f, nil
		}
		if strings.Contains(f.Field, name) {
			near = append(near, f.Field)
		}
		all = append(all, f.Field, strings.TrimPrefix(f.Field, "gpu."))
	}
	hint := "berth config lists all fields"
	if len(near) > 0 && name != "" {
		hint = "did you mean " + words.Few(near, mostNear) + "?"
	} else {
		hint = words.Suggest(name, all, hint)
	}
	return api.ConfigField{}, console.Hinted(console.Usage("the configuration has no field %q", name), hint)
}

// mostNear is how many fields a suggestion names.
const mostNear = 8

func newConfigGet(con *console.Console) *cobra.Command {
	var devices string
	cmd := &cobra.Command{
		Use:     "get FIELD",
		Short:   "Show the value of one field",
		Long:    `Show the value of one field and nothing else. You may leave out "gpu." in front.`,
		Example: "  berth config get temp_optimal\n  berth config get daemon.socket --json",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, console.NoFiles
			}
			return completeField(con, "", "", console.NoFiles)(cmd, nil, "")
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return readFields(cmd.Context(), con, devices, func(all api.ConfigFields) error {
				f, err := findField(all.Fields, args[0])
				if err != nil {
					return err
				}
				return con.Answer(f, term.Clean(f.Value))
			})
		},
	}
	console.DevicesFlag(cmd, &devices)
	return cmd
}

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
		ValidArgsFunction: completeField(con, "=", "", console.NoFiles|cobra.ShellCompDirectiveNoSpace),
		RunE:              func(cmd *cobra.Command, args []string) error { return setFields(cmd.Context(), con, args) },
	}
}

// setFields makes changes, each written as FIELD=VALUE, and prints the resulting
// fields.
func setFields(ctx context.Context, con *console.Console, changes []string) error {
	body, names, err := config.Assignments(changes)
	if err != nil {
		return console.Usage("%v", err)
	}
	return con.With(ctx, func(c *client.Client) error {
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
		var lines []string
		for _, name := range names {
			line := name + " is no longer set at run time"
			if f, err := findField(fields.Fields, name); err == nil {
				line = fmt.Sprintf("%s = %s (%s)", term.Clean(f.Field), term.Clean(f.Value), term.Clean(f.Source))
			}
			lines = append(lines, line)
		}
		return con.Print(lines...)
	})
}

func newConfigUnset(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "unset FIELD...",
		Short: "Take back changes at run time",
		Long: `Take back what "berth config set" or the API changed, so that the configuration
file decides again, or the default. The daemon takes back all the fields or
none. A section or the name of a service, hook or device stands for all of it.`,
		Example: `  berth config unset temp_optimal
  berth config unset services.embedder devices.GPU-5a9c`,
		ValidArgsFunction: completeField(con, "", config.SavedAtRunTime, console.NoFiles),
		RunE: func(cmd *cobra.Command, args []string) error {
			for i, field := range args {
				args[i] = field + "=null"
			}
			return setFields(cmd.Context(), con, args)
		},
	}
}

func newConfigReload(con *console.Console) *cobra.Command {
	return console.Show(con, &cobra.Command{
		Use:   "reload",
		Short: "Make the daemon read its configuration file again",
		Long: `Make the daemon read its configuration file again, and print what changed. The
daemon takes the whole file or, if something is wrong with it, nothing, and
says which line is wrong. The section daemon needs a restart.

Changes at run time are stronger than the file: the command names the settings
of the file that they override. "berth config unset" takes them back.`,
		Example: "  berth config reload\n  berth config reload --json",
	}, (*client.Client).ReloadConfig, view.Reloaded)
}

func newConfigCheck(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Check a configuration file without a daemon",
		Long: `Check a configuration file without a daemon, and report every mistake with its
line. A file that others can change, or one with secrets that others can read,
is a mistake too. The keys, certificates and rules that it names are read as
well, and services are checked for a daemon of root, or of the user who checks:
run it with sudo for the daemon of the machine. "-" reads standard input.`,
		Example: "  berth config check berth.yaml\n  berth config check - < berth.yaml",
		RunE:    func(cmd *cobra.Command, args []string) error { return checkConfig(cmd.Context(), con, args[0]) },
	}
}

// warnOf returns a function that shows what is unsafe but no mistake.
func warnOf(con *console.Console) func(string) {
	return func(about string) { fmt.Fprintln(con.Err, "berth: "+term.CleanLines(about)) }
}

// readConfig reads a configuration file as the daemon does, which refuses a file that
// others can change.
func readConfig(ctx context.Context, con *console.Console, path string) (*file.Trusted, error) {
	if path != "-" {
		return file.ReadTrusted(path, warnOf(con))
	}
	text, err := con.Read(ctx, path, math.MaxInt64)
	return &file.Trusted{Text: text}, err
}

func checkConfig(ctx context.Context, con *console.Console, path string) error {
	check, err := con.Checker()
	if err != nil {
		return err
	}
	found, err := readConfig(ctx, con, path)
	if err != nil {
		return console.Unread("read the configuration", path, err)
	}
	name := console.NameOf(path)
	layer, _ := config.ParseYAML(name, found.Text) // Merge repeats the errors, and finds more
	settings, err := config.Merge(layer)
	if err != nil {
		return err
	}
	if secrets := settings.Secrets(name); len(secrets) > 0 {
		if err := found.CheckSecret(); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(secrets, ", "), err)
		}
	}
	if err := check(settings, warnOf(con)); err != nil {
		return err
	}
	return con.Answer(map[string]any{"file": name, "valid": true}, term.Clean(name)+" is valid")
}
