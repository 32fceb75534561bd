package upkeep

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/term"
)

type checkOptions struct {
	*console.Console
	quick, long, residue bool
}

func newCheck(con *console.Console) *cobra.Command {
	o := &checkOptions{Console: con}
	cmd := &cobra.Command{
		Use:   "check [GPU]",
		Short: "Test whether a GPU works",
		Long: `Test a GPU, or all of them one after the other: patterns in all memory that is
free and not leased, copies in both directions and their rate, a computation
with a known answer, clocks, links and memory errors. A helper process does it,
so that a fault there hurts nobody. While it runs, berth grants nothing on the
GPU; leases there go on.

A GPU that fails goes into quarantine, or stays there. One in quarantine that
passes is on probation at once.

--residue tests nothing: it looks for what earlier programs left in free memory.

The exit code is 0 if all passed, 1 if one failed or something was left, and 4
if one could not be asked. It needs the role operator.`,
		Example: `  berth check 0
  berth check --long
  berth check 0 --residue
  berth check 0 --json | jq .verdict`,
		ValidArgsFunction: con.GPUs(),
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.quick, "quick", false, "test for some seconds (the default)")
	flags.BoolVar(&o.long, "long", false, "test for some minutes, with more patterns")
	flags.BoolVar(&o.residue, "residue", false, "look for what programs left in free memory")
	return cmd
}

// kind returns the kind of check that the flags select.
func (o *checkOptions) kind() string {
	switch {
	case o.long:
		return "long"
	case o.residue:
		return "residue"
	}
	return "quick"
}

func (o *checkOptions) run(ctx context.Context, args []string) error {
	if o.quick && o.long || o.residue && (o.quick || o.long) {
		return console.Usage("give one of --quick, --long and --residue, not several")
	}
	return o.With(ctx, func(c *client.Client) error { return o.checkAll(ctx, c, args) })
}

// checkAll checks the devices that the arguments name, or else all of them.
func (o *checkOptions) checkAll(ctx context.Context, c *client.Client, args []string) error {
	all := args
	if len(args) == 0 {
		machine, err := c.StatusAll(ctx)
		if err != nil {
			return err
		}
		for _, d := range machine.GPUs {
			all = append(all, strconv.Itoa(d.Device.Index))
		}
		if len(all) == 0 {
			return fmt.Errorf("there is no GPU to check: %s", term.Clean(machine.Note))
		}
	}
	var failed, unasked bool
	for _, ref := range all {
		found, err := o.check(ctx, c, ref)
		if err != nil {
			return err
		}
		failed, unasked = failed || found.Verdict == "failed", unasked || found.Verdict == "could_not_be_asked"
		switch {
		case o.JSON && len(args) == 0:
			err = o.PrintJSONLine(found)
		default:
			err = o.Answer(found, view.Check(found, o.Screen())...)
		}
		if err != nil {
			return err
		}
	}
	switch {
	case failed:
		return console.ErrReported
	case unasked:
		return console.ErrRefused
	}
	return nil
}

// check checks one device, and reports the progress meanwhile.
func (o *checkOptions) check(ctx context.Context, c *client.Client, ref string) (api.Check, error) {
	before, err := c.Status(ctx, ref)
	if err != nil {
		return api.Check{}, err
	}
	defer o.FollowEvents(ctx, c, gpu.EventFilter{Codes: []gpu.EventCode{gpu.EventCheck}, GPUs: []string{before.Device.UUID}})()
	return c.Check(ctx, api.CheckRequest{GPU: gpu.Ref(ref), Kind: o.kind()})
}
