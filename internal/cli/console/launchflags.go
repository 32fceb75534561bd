package console

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/process/launch"
)

// LaunchFlags adds the flags that describe what a program needs, except some, to a command
// that starts one.
func (c *Console) LaunchFlags(cmd *cobra.Command, request *launch.Request, except ...string) {
	flags := cmd.Flags()
	for _, f := range launch.Flags(placement.PolicyNames()) {
		if slices.Contains(except, f.Name) {
			continue
		}
		flags.Var(&launchValue{request, f, ""}, f.Name, f.Usage)
		if f.Bare {
			flags.Lookup(f.Name).NoOptDefVal = "true"
		}
	}
	CompleteWith(cmd, "policy", placement.PolicyNames())
	CompleteWith(cmd, "enforce", []string{"auto", launch.MPS, launch.Framework, launch.Watchdog, launch.None})
	CompleteWith(cmd, "isolation", []string{launch.ByEnv, launch.ByCgroup})
	CompleteFlag(cmd, "gpu", c.GPUs())
	CompleteFlag(cmd, "prefer", c.GPUs())
}

// launchValue is a flag of the launcher in the form that the command line takes.
type launchValue struct {
	request *launch.Request
	flag    launch.Flag
	given   string
}

func (v *launchValue) Set(text string) error {
	v.given = text
	return v.flag.Set(v.request, text)
}

func (v *launchValue) String() string { return v.given }

func (v *launchValue) Type() string {
	if v.flag.Bare {
		return "bool"
	}
	return v.flag.Value
}
