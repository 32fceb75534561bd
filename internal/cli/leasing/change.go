package leasing

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/term"
)

func newRelease(con *console.Console) *cobra.Command {
	var fence uint64
	var keepRunning bool
	cmd := onLease(con, &cobra.Command{
		Use:   "release [USER/]ID",
		Short: "End a lease, or withdraw a waiting request",
		Long: `End a lease, or withdraw a waiting request. With --fence, end only the lease
that came with this number, and not a later one of the same name.

A release ends no program. So the release of a lease that is bound to a process
is refused while that process lives, unless it or its kin ask: to end both, use
berth cancel. With --keep-running, or with --fence, only the lease ends; what
the process uses counts as foreign from then on.

Ids are per user. An ID means your own lease; operators and administrators who
have none mean the only one there is, and name one of several as USER/ID.`,
		Example: "  berth release embedder\n  berth release embedder --fence 12\n  berth release --keep-running ada/embedder",
	}, &fence, func(ctx context.Context, c *client.Client, id string) (api.Ended, error) {
		if keepRunning && fence == 0 {
			return c.ReleaseKeepRunning(ctx, id)
		}
		return c.Release(ctx, id, fence)
	}, view.GPUs.Ended)
	cmd.Flags().BoolVar(&keepRunning, "keep-running", false, "its program may run on without the lease")
	return cmd
}

func newRenew(con *console.Console) *cobra.Command {
	var body api.Renew
	var ttl console.Seconds
	cmd := onLease(con, &cobra.Command{
		Use:   "renew [USER/]ID",
		Short: "Renew a lease that has a time to live",
		Long: `Renew a lease: its time to live starts again now. With --fence, the daemon
refuses if the lease that came with this number has ended, so that a holder that
was away learns that it lost its lease. Operators name the lease of another user
as USER/ID.`,
		Example: "  berth renew embedder\n  berth renew embedder --fence 12 --ttl 1h",
	}, &body.Fence, func(ctx context.Context, c *client.Client, id string) (api.Lease, error) {
		body.TTL = ttl.Opt
		return c.Renew(ctx, id, body)
	}, view.GPUs.Granted)
	cmd.Flags().Var(&ttl, "ttl", "the lease expires this `TIME` from now\n(default: its time to live)")
	return cmd
}

func newResize(con *console.Console) *cobra.Command {
	var body api.Resize
	var wait console.Seconds
	cmd := onLeaseSlowly(con, &cobra.Command{
		Use:   "resize [USER/]ID MEMORY",
		Short: "Give a lease more or less memory",
		Long: `Give a lease another amount of memory on each of its GPUs. Less is given back at
once, if the programs of the lease use no more than that. More is granted if
there is room; with --wait, the lease waits for room like every request.

berth also tells a program with the Python package, whose limits for PyTorch and
CuPy follow. Other programs keep the limit that they were started with.`,
		Example: "  berth resize train 8GiB\n  berth resize train 40GiB --wait 10m\n  berth resize ada/train 4096",
		PreRunE: func(_ *cobra.Command, args []string) (err error) {
			if body.Memory, err = amount(args[1]); err != nil {
				return console.Usage("%v", err)
			}
			body.Timeout = wait.Opt
			return nil
		},
	}, &body.Fence, "%s keeps its size", func(ctx context.Context, c *client.Client, id string) (api.Lease, error) {
		return c.Resize(ctx, id, body)
	}, view.GPUs.Resized)
	cmd.SetFlagErrorFunc(negative)
	cmd.Flags().Var(&wait, "wait", "wait this `TIME` for room, as in 30s (default: not at all)")
	return cmd
}

func newPace(con *console.Console) *cobra.Command {
	var body api.Pace
	cmd := onLease(con, &cobra.Command{
		Use:   "pace [USER/]ID SHARE|off",
		Short: "Hold a lease to a share of its GPUs",
		Long: `Hold a lease to a share of what it would get of its GPUs, from 5% to 100%,
without the help of its programs: berth stops and continues their processes in
turns of about a second, and measures what they get. "off" lets it run freely.

You can slow down your own leases and let them run again. Operators do so for
every lease; what an operator set, only an operator takes back. The share lasts
until the lease ends, also across a restart of the daemon.

berth never stops jobs of a shell at a terminal, processes that somebody else
has stopped or debugs, programs of berth, pods, and programs that share a GPU
through MPS.`,
		Example: "  berth pace train 50%\n  berth pace train 50% --reason \"the room is hot\"\n  berth pace ada/train off",
		PreRunE: func(_ *cobra.Command, args []string) (err error) {
			if body.Share = 1; args[1] == "off" {
				return nil
			}
			if body.Share, err = console.ParseShare(args[1]); err != nil {
				return console.Usage("%v, or off", err)
			}
			return nil
		},
	}, &body.Fence, func(ctx context.Context, c *client.Client, id string) (api.Lease, error) {
		return c.Pace(ctx, id, body)
	}, view.GPUs.Paced)
	cmd.Flags().StringVar(&body.Why, "reason", "", "`TEXT` that people read about it")
	return cmd
}

func newPark(con *console.Console) *cobra.Command {
	var body api.Park
	cmd := onLeaseSlowly(con, &cobra.Command{
		Use:   "park [USER/]ID",
		Short: "Move the GPU memory of a lease to the machine's memory",
		Long: `Move the memory of a lease from its GPU to the memory of the machine, without
the help of its programs, which stand still meanwhile. The lease then holds
neither memory nor slots, and others can have them. It stays parked until
berth resume, or until its program asks for it, if that is one that runs on.

berth parks all processes of the lease, or none. It refuses a lease on several
GPUs, a program under MPS, unified memory, and what the driver refuses, and says
why. berth help sharing says more.

A process that has opened GPU memory of another one (CUDA IPC) would not come
back. So berth refuses a lease with several processes on the GPU, or with
relatives there, unless you say with --unshared that they share no GPU memory.
Only the owner of a lease can say that.

You can park your own leases; operators park every lease. If you interrupt the
command, the daemon goes on.`,
		Example: "  berth park train\n  berth park ada/train --reason \"the demo needs the GPU\"\n  berth park server --unshared",
	}, &body.Fence, "the daemon goes on parking %s", func(ctx context.Context, c *client.Client, id string) (api.Lease, error) {
		return c.Park(ctx, id, body)
	}, view.GPUs.Parked)
	cmd.Flags().StringVar(&body.Why, "reason", "", "`TEXT` that people read about it")
	cmd.Flags().BoolVar(&body.Unshared, "unshared", false, "the processes of the lease share no GPU memory, with each\nother or with others")
	return cmd
}

func newResume(con *console.Console) *cobra.Command {
	var body api.Resume
	var wait console.Seconds
	var now bool
	cmd := onLeaseSlowly(con, &cobra.Command{
		Use:   "resume [USER/]ID",
		Short: "Move the memory of a parked lease back to its GPU",
		Long: `Move the memory of a parked lease back to its GPU, and let its programs go on.
The lease waits for room like every request, for --wait, which is
optimization.allocation_timeout by default. With --now, it does not wait.

If you interrupt the command while the lease waits, it stays parked.`,
		Example: "  berth resume train\n  berth resume train --now\n  berth resume ada/train --wait 10m",
		PreRunE: func(*cobra.Command, []string) error {
			switch body.Timeout = wait.Opt; {
			case now && wait.Known():
				return console.Usage("give --wait or --now, not both")
			case now:
				body.Timeout = gpu.Some(0.0)
			}
			return nil
		},
	}, &body.Fence, "%s stays parked, unless its memory is on its way already", func(ctx context.Context, c *client.Client, id string) (api.Lease, error) {
		return c.Resume(ctx, id, body)
	}, view.GPUs.Resumed)
	flags := cmd.Flags()
	flags.Var(&wait, "wait", "wait this `TIME` for room, as in 30s\n(default: optimization.allocation_timeout)")
	flags.BoolVar(&now, "now", false, "resume it now, or not at all")
	flags.StringVar(&body.Why, "reason", "", "`TEXT` that people read about it")
	return cmd
}

func newAdopt(con *console.Console) *cobra.Command {
	var request api.Adopt
	var memory console.Memory
	cmd := &cobra.Command{
		Use:   "adopt --pid PID",
		Short: "Give a running process a lease",
		Long: `Give a process that already uses GPUs a lease. The lease ends with the process.
It covers the memory that the process and its children use now, on every GPU
that they use, plus a margin of a tenth and at least 256 MiB. Where there is no
room for the margin, berth grants the lease without it. You cannot adopt the
daemon, or a process that it descends from.`,
		Example: `  berth adopt --pid 4711
  berth adopt --pid 4711 --service notebook --memory 8GiB --gpu 0`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("pid") {
				return console.Usage("--pid is missing: name the process to adopt, as in --pid 4711")
			}
			if request.PID <= 0 {
				return console.Usage("--pid must be 1 or more, not %d", request.PID)
			}
			request.Memory = gpu.MiB(memory)
			return console.AskByIndex(cmd.Context(), con, func(c *client.Client, ctx context.Context) (api.Lease, error) {
				return c.Adopt(ctx, request)
			}, view.GPUs.Granted)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&request.PID, "pid", 0, "`PID` of the process")
	flags.StringVar((*string)(&request.GPU), "gpu", "", "lease only on this `GPU` (index or UUID)")
	flags.Var(&memory, "memory", "lease this much `MEMORY` on each GPU, as in 4GiB")
	flags.StringVar(&request.Service, "service", "", "`SERVICE` that the process belongs to")
	flags.StringVar(&request.ID, "id", "", "`NAME` of the lease")
	console.CompleteFlag(cmd, "gpu", con.GPUs())
	return cmd
}

// onLease returns a command that has the daemon change the lease or the request that its
// first argument names, and prints the lines that say makes of the answer. The flag --fence
// sets fence.
func onLease[T any](con *console.Console, cmd *cobra.Command, fence *uint64,
	do func(ctx context.Context, c *client.Client, id string) (T, error), say func(view.GPUs, T, term.Screen) []string) *cobra.Command {
	return withLease(con, cmd, fence, func(ctx context.Context, name string) error {
		return console.AskByIndex(ctx, con, func(c *client.Client, ctx context.Context) (T, error) {
			return byName(ctx, c, name, func(c *client.Client, id string) (T, error) { return do(ctx, c, id) })
		}, say)
	})
}

// onLeaseSlowly does the same for a change that takes a while: it reports the progress. The format
// interrupted says what an interrupt means for the lease with a name.
func onLeaseSlowly(con *console.Console, cmd *cobra.Command, fence *uint64, interrupted string,
	do func(ctx context.Context, c *client.Client, id string) (api.Lease, error), say func(view.GPUs, view.Moved, term.Screen) []string) *cobra.Command {
	return withLease(con, cmd, fence, func(ctx context.Context, name string) error {
		return move(ctx, con, name, fmt.Sprintf(interrupted, name), do, say)
	})
}

// withLease returns a command whose first argument names a lease or a request.
func withLease(con *console.Console, cmd *cobra.Command, fence *uint64, do func(ctx context.Context, name string) error) *cobra.Command {
	cmd.Flags().Uint64Var(fence, "fence", 0, "`NUMBER` that came with the lease")
	cmd.ValidArgsFunction = con.Leases()
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return do(cmd.Context(), args[0]) }
	return cmd
}

// byName calls do for the lease or the request with a name: ID, which means the user's
// own or else the only one there is, or USER/ID. An id may also contain a slash: if
// USER has no such lease, byName tries the whole text as an id. If no lease has or had
// that id, byName takes the text for a name or the beginning of an id.
func byName[T any](ctx context.Context, c *client.Client, name string, do func(c *client.Client, id string) (T, error)) (T, error) {
	answer, err := byID(c, name, do)
	if name == "" || !console.IsProblem(err, "unknown_allocation") {
		return answer, err
	}
	id, found := pick(ctx, c, name)
	switch {
	case errors.Is(found, console.ErrNothing):
		return answer, err // the daemon names what is missing
	case found != nil:
		return answer, found
	}
	return do(c, id) // the user's own, or the only one
}

// pick returns the id of the lease or the request that a text means which is no id, among
// those that the caller may see. A lease that has ended keeps its id and its name: whoever
// writes them means nothing that only begins so.
func pick(ctx context.Context, c *client.Client, text string) (string, error) {
	me, err := c.Whoami(ctx)
	if err != nil {
		return "", err
	}
	mine, others, ended, err := console.Leases(ctx, c, me.User)
	if err != nil {
		return "", err
	}
	id, err := console.Pick(text, mine, others, ended)
	if stands, _ := console.Pick(text, mine, others); err == nil && stands != id { // it has ended, and somebody else may have its id
		return "", console.ErrNothing
	}
	return id, err
}

func byID[T any](c *client.Client, name string, do func(c *client.Client, id string) (T, error)) (T, error) {
	user, id, found := strings.Cut(name, "/")
	if !found || user == "" || id == "" {
		return do(c, name)
	}
	answer, err := do(c.Of(user), id)
	if !console.IsProblem(err, "unknown_allocation", "not_yours") {
		return answer, err
	}
	if whole, refused := do(c, name); refused == nil {
		return whole, nil
	}
	return answer, err
}
