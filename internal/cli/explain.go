package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/placement"
)

type explainOptions struct {
	*app
	id      string // of a request that waits; empty: request is not made
	request api.LeaseRequest
	memory  memoryValue
	devices string
}

func newExplain(a *app) *cobra.Command {
	o := &explainOptions{app: a}
	cmd := &cobra.Command{
		Use:     "explain [ID]",
		Short:   "Say what stands in the way of a request",
		GroupID: groupLeases,
		Long: `Say what a waiting request waits for or, without an ID, what would become of a
request with these flags if it were made: what stands in its way on each GPU,
who holds it and until when if that is known, and what would be granted now.
Nothing is asked for.`,
		Example: `  berth explain trainer
  berth explain --memory 40GiB --gpus 2
  berth explain --memory 8GiB --where 'name~H200,cc>=9.0'`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeLease,
	}
	flags := cmd.Flags()
	asked := []string{"memory", "gpus", "slots", "gpu", "where", "policy", "service", "priority"}
	flags.Var(&o.memory, "memory", "`MEMORY` on each GPU, as in 4GiB")
	flags.IntVar(&o.request.GPUs, "gpus", 1, "how `MANY` GPUs, all different")
	slots := flags.Int("slots", 1, "how `MANY` slots on each GPU")
	flags.StringVar(&o.request.GPU, "gpu", "", "this `GPU` (index or UUID) and no other")
	flags.StringVar(&o.request.Where, "where", "", "what the GPU must be like: `CONDITIONS` such as\nname~H200,memory>=40GiB,cc>=8.0,vendor=nvidia")
	flags.StringVar(&o.request.Policy, "policy", "", "how to `CHOOSE`:\n"+strings.Join(wrap(strings.Join(placement.PolicyNames(), ", "), 52), "\n"))
	flags.StringVar(&o.request.Service, "service", "", "`SERVICE` it would be for")
	priority := flags.Int("priority", 0, "`NUMBER`; higher goes first")
	_ = cmd.RegisterFlagCompletionFunc("policy", cobra.FixedCompletions(placement.PolicyNames(), cobra.ShellCompDirectiveNoFileComp))
	gpuCompletion(a, cmd)
	devicesFlag(cmd, &o.devices)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		given := slices.ContainsFunc(asked, flags.Changed)
		switch {
		case len(args) > 0 && given:
			return usage("give the ID of a request that waits, or flags for one that is not made, not both")
		case len(args) > 0 && args[0] == "" || len(args) == 0 && !given:
			return usage("give the ID of a request that waits, or say what you would ask for, as in --memory 4GiB")
		case o.request.GPUs < 1:
			return usage("--gpus is %d; ask for one GPU at least", o.request.GPUs)
		case len(args) > 0:
			o.id = args[0]
		}
		o.request.Memory, o.request.Slots = gpu.MiB(o.memory), gpu.Some(*slots)
		if flags.Changed("priority") {
			o.request.Priority = gpu.Some(*priority)
		}
		return o.run(cmd.Context())
	}
	return cmd
}

func (o *explainOptions) run(ctx context.Context) error {
	c, done, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer done()
	gpus, err := o.indexes(ctx, c)
	if err != nil {
		return err
	}
	var e api.Explanation
	if o.id != "" {
		e, err = c.ExplainWaiting(ctx, o.id)
	} else {
		e, err = c.Explain(ctx, o.request)
	}
	if err != nil {
		return err
	}
	if o.json {
		return o.printJSON(e)
	}
	return o.print(gpus.explained(e, o.screen())...)
}

// open finds who can explain: only the daemon knows who waits, but what would
// fit can be said without one.
func (o *explainOptions) open(ctx context.Context) (*client.Client, func(), error) {
	if o.id != "" {
		c, err := o.daemon(ctx)
		if err != nil {
			return nil, nil, err
		}
		return c, c.Close, nil
	}
	v, err := o.view(ctx, o.devices)
	if err != nil {
		return nil, nil, err
	}
	return v.Client, v.close, nil
}

// explained is the whole in a sentence, then what stands in the way device by
// device.
func (x indexes) explained(e api.Explanation, to screen) []string {
	mark, c := "✗ ", red
	switch {
	case e.Fits:
		mark, c = "✓ ", green
	case e.Possible:
		mark, c = "! ", yellow
	}
	lines := []string{to.hang(c, mark, clean(e.Text))}
	if len(e.Behind) > 0 {
		ids := make([]string, len(e.Behind))
		for i, id := range e.Behind {
			ids[i] = clean(id)
		}
		lines = append(lines, to.hang(plain, "  ", "Served first: "+strings.Join(ids, ", ")))
	}
	if len(e.Devices) > 0 {
		lines = append(lines, "")
	}
	for _, o := range grouped(e.Devices) {
		lines = append(lines, x.obstacle(o, to)...)
	}
	if !e.Fits && e.LargestEver > 0 {
		lines = append(lines, "", fmt.Sprintf("Granted now: %s. Ever: %s.", atMost(e.LargestNow), atMost(e.LargestEver)))
	}
	return lines
}

func atMost(m gpu.MiB) string {
	if m == 0 {
		return "nothing"
	}
	return "at most " + m.Exact()
}

// together is what stands in the way on several devices alike.
type together struct {
	api.Obstacle
	uuids []string
}

// grouped puts devices together that differ in nothing but their name.
func grouped(all []api.Obstacle) []together {
	var groups []together
	for _, o := range all {
		if o.Code != "no_memory" && o.Code != "no_slot" {
			o.Holders = nil // it is not they who are in the way
		}
		same := slices.IndexFunc(groups, func(g together) bool {
			return g.Text == o.Text && len(g.Holders) == 0 && len(o.Holders) == 0
		})
		if same >= 0 {
			groups[same].uuids = append(groups[same].uuids, o.GPU)
			continue
		}
		groups = append(groups, together{o, []string{o.GPU}})
	}
	return groups
}

func (x indexes) obstacle(o together, to screen) []string {
	shorts := make([]string, len(o.uuids))
	for i, uuid := range o.uuids {
		shorts[i] = x.short(uuid)
	}
	lead := fmt.Sprintf("  GPU %s  ", strings.Join(shorts, ", "))
	lines := []string{to.hang(bold, lead, clean(o.Text))}
	for _, h := range o.Holders {
		text := fmt.Sprintf("%s of %s holds %s", clean(h.Lease), who(h.Holder), amount(h.Memory, h.Slots))
		if h.Until != nil {
			text += fmt.Sprintf(" until %s, in %s", h.Until.In(to.now.Location()).Format(time.TimeOnly), span(h.Until.Sub(to.now)))
		}
		lines = append(lines, to.hang(dim, strings.Repeat(" ", columns(lead))+"· ", text))
	}
	return lines
}
