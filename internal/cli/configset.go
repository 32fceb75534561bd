package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/term"
)

type configSetOptions struct {
	*app
	changes []string // FIELD=VALUE
}

func newConfigSet(a *app) *cobra.Command {
	o := &configSetOptions{app: a}
	return &cobra.Command{
		Use:   "set FIELD=VALUE...",
		Short: "Change fields of the gpu section",
		Long: `Change fields of the gpu section in the running daemon. The daemon takes all the
changes or none. They hold at once, and after a restart.

You may leave out "gpu." in front. devices.UUID.FIELD sets a field of one
device. FIELD=null takes a change back, so that the configuration file decides
again.`,
		Example: `  berth config set temp_optimal=60
  berth config set memory_reserve_mb=1GiB monitor_interval=500ms
  berth config set devices.GPU-5a9c.temp_critical=88
  berth config set temp_optimal=null`,
		Args: cobra.MinimumNArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return a.completeField(cmd, "="), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.changes = args
			return o.run(cmd.Context())
		},
	}
}

func (o *configSetOptions) run(ctx context.Context) error {
	body, names, err := changeBody(o.changes)
	if err != nil {
		return err
	}
	c, err := o.daemon(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	section, err := c.SetConfig(ctx, body)
	if err != nil {
		return err
	}
	if o.json {
		return o.printJSON(section)
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
		if err := o.print(line); err != nil {
			return err
		}
	}
	return nil
}

// changeBody turns FIELD=VALUE into the JSON object that the daemon takes.
func changeBody(changes []string) (body []byte, names []string, err error) {
	section := map[string]any{}
	for _, change := range changes {
		name, value, found := strings.Cut(change, "=")
		name = strings.TrimPrefix(strings.TrimSpace(name), "gpu.")
		if !found || name == "" {
			return nil, nil, usage("%q is not FIELD=VALUE", change)
		}
		if section, _, _ := strings.Cut(name, "."); slices.Contains([]string{"daemon", "optimization", "services", "hooks"}, section) {
			return nil, nil, usage("%s cannot be changed while the daemon runs: set it in berth.yaml and restart the daemon", name)
		}
		if err := put(section, strings.Split(name, "."), jsonValue(value)); err != nil {
			return nil, nil, usage("%q: %v", change, err)
		}
		names = append(names, name)
	}
	body, err = json.Marshal(section)
	return body, names, err
}

// put sets a value in nested objects, making those that are not there yet.
func put(section map[string]any, path []string, value any) error {
	for _, name := range path[:len(path)-1] {
		if _, there := section[name]; !there {
			section[name] = map[string]any{}
		}
		below, ok := section[name].(map[string]any)
		if !ok {
			return fmt.Errorf("%s has a value already", name)
		}
		section = below
	}
	last := path[len(path)-1]
	if _, there := section[last]; there {
		return fmt.Errorf("%s is set twice", last)
	}
	section[last] = value
	return nil
}

// jsonValue is a number, true, false, null or an object where the text is one,
// and else the text: the daemon knows which fields take "1GiB" or "500ms".
func jsonValue(text string) any {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return text
}
