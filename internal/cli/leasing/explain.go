package leasing

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/text/term"
)

type explainOptions struct {
	*console.Console
	id      string // of a waiting request; empty if request is not made
	request api.LeaseRequest
	devices string
}

func newExplain(con *console.Console) *cobra.Command {
	o := &explainOptions{Console: con}
	cmd := &cobra.Command{
		Use:   "explain [[USER/]ID]",
		Short: "Explain what stands in the way of a request",
		Long: `Explain what a waiting request waits for. Without an ID, explain what the daemon
would do with a request that has these flags, without making it. Name a request
of another user as USER/ID if several have the ID.

The answer tells what stands in the way on each GPU, who holds it, until when if
that is known, how much memory the daemon would grant now, and when the request
would probably be granted.`,
		Example: `  berth explain trainer
  berth explain --memory 40GiB --gpus 2
  berth explain --exclusive
  berth explain --memory 8GiB --where 'name~H200,cc>=9.0'`,
		ValidArgsFunction: con.Leases(),
	}
	flags := cmd.Flags()
	asked := []string{"memory", "exclusive", "gpus", "slots", "gpu", "prefer", "where", "policy", "service", "priority"}
	flags.Var(memoryOrAll{&o.request}, "memory", "`MEMORY` on each GPU, as in 4GiB,\nor all that the largest has")
	flags.BoolVar(&o.request.Exclusive, "exclusive", false, "each GPU alone, as exec asks for it by itself")
	flags.IntVar(&o.request.GPUs, "gpus", 1, "`NUMBER` of different GPUs")
	slots := flags.Int("slots", 1, "`NUMBER` of slots on each GPU")
	flags.StringVar((*string)(&o.request.GPU), "gpu", "", "on this `GPU` only (index or UUID)")
	flags.StringVar(&o.request.Where, "where", "", "on GPUs that meet these `CONDITIONS`, as in\nname~H200,memory>=40GiB,cc>=8.0,vendor=nvidia")
	wishFlags(con, cmd, (*string)(&o.request.Prefer), &o.request.Policy)
	flags.StringVar(&o.request.Service, "service", "", "for this `SERVICE`")
	priority := flags.Int("priority", 0, "requests with a higher `NUMBER` are served first")
	console.CompleteFlag(cmd, "gpu", con.GPUs())
	console.DevicesFlag(cmd, &o.devices)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		given := slices.ContainsFunc(asked, flags.Changed)
		switch {
		case len(args) > 0 && given:
			return console.Usage("give the ID of a waiting request, or flags such as --memory, not both")
		case len(args) > 0 && args[0] == "" || len(args) == 0 && !given:
			return console.Usage("give the ID of a waiting request, or say what you would ask for, as in --memory 4GiB")
		case o.request.GPUs < 1:
			return console.Usage("--gpus must be 1 or more, not %d", o.request.GPUs)
		case len(args) > 0:
			o.id = args[0]
		}
		o.request.Slots = gpu.Some(*slots)
		if flags.Changed("priority") {
			o.request.Priority = gpu.Some(*priority)
		}
		return o.run(cmd.Context())
	}
	return cmd
}

// memoryOrAll is the value of a flag that takes 4GiB, 512M or all. It is the memory of a
// request.
type memoryOrAll struct{ of *api.LeaseRequest }

// Set parses the value. It refuses a number without a unit.
func (v memoryOrAll) Set(text string) error {
	v.of.Memory, v.of.AllMemory = 0, text == "all"
	if v.of.AllMemory {
		return nil
	}
	return (*console.Memory)(&v.of.Memory).Set(text)
}

// String returns the value as Set parses it, or "" if there is none.
func (v memoryOrAll) String() string {
	switch {
	case v.of == nil:
		return ""
	case v.of.AllMemory:
		return "all"
	}
	return (*console.Memory)(&v.of.Memory).String()
}

// Type returns the kind of value for the help.
func (memoryOrAll) Type() string { return "memory" }

func (o *explainOptions) run(ctx context.Context) error {
	v, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer v.Close()
	gpus, err := o.Indexes(ctx, v.Client)
	if err != nil {
		return err
	}
	var e api.Explanation
	if o.id != "" {
		e, err = byName(ctx, v.Client, o.id, func(c *client.Client, id string) (api.Explanation, error) { return c.ExplainWaiting(ctx, id) })
	} else {
		e, err = v.Explain(ctx, o.request)
	}
	if o.id != "" && console.IsProblem(err, "unknown_allocation") {
		if job, found := jobOf(ctx, v.Client, o.id); found == nil {
			return o.unasked(job)
		}
	}
	if err != nil {
		return err
	}
	return o.Answer(e, gpus.Explained(e, o.Screen())...)
}

// jobOf returns the job with an id, or the caller's own that a name means.
func jobOf(ctx context.Context, c *client.Client, text string) (api.Job, error) {
	if job, err := c.Job(ctx, text); err == nil {
		return job, nil
	}
	me, err := c.Whoami(ctx)
	if err != nil {
		return api.Job{}, err
	}
	alive, ended, err := console.Jobs(ctx, c, me.User, client.JobQuery{})
	if err != nil {
		return api.Job{}, err
	}
	id, err := console.Pick(text, alive, ended)
	if err != nil {
		return api.Job{}, err
	}
	return c.Job(ctx, id)
}

// unasked explains a job that has no request: it waits for something that comes before
// room, or it has ended.
func (o *explainOptions) unasked(j api.Job) error {
	text := j.ID + " is " + j.State
	if j.Cause != "" {
		text += ": " + j.Cause
	}
	e := api.Explanation{Text: term.Clean(text + ". It asks for no GPU now. berth job " + j.ID + " says more.")}
	return o.Answer(e, o.Screen().Hang(term.Yellow, "! ", e.Text))
}

// open finds a source for the explanation: only the daemon knows who waits, but what
// would fit can be said without one.
func (o *explainOptions) open(ctx context.Context) (*console.Source, error) {
	if o.id == "" {
		return o.Look(ctx, o.devices)
	}
	c, err := o.Daemon(ctx)
	if err != nil {
		return nil, err
	}
	return &console.Source{Client: c}, nil
}

// wishFlags adds the flags that choose among the GPUs that fit.
func wishFlags(con *console.Console, cmd *cobra.Command, prefer, policy *string) {
	flags, names := cmd.Flags(), placement.PolicyNames()
	flags.StringVar(prefer, "prefer", "", "take this `GPU` if it has room (index or UUID)")
	flags.StringVar(policy, "policy", "", "choose the GPU by this `POLICY`:\n"+strings.Join(term.Wrap(strings.Join(names, ", "), 52), "\n"))
	console.CompleteFlag(cmd, "prefer", con.GPUs())
	console.CompleteWith(cmd, "policy", names)
}
