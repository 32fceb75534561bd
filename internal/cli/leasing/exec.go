package leasing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/programs"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/process/launch"
	"github.com/berth-gpu/berth/internal/text/term"
)

type execOptions struct {
	*console.Console
	request launch.Request
	dryRun  bool
	become  Become
}

func newExec(con *console.Console, become Become) *cobra.Command {
	o := &execOptions{Console: con, become: become}
	cmd := &cobra.Command{
		Use:   "exec [flags] -- COMMAND [ARGUMENT]...",
		Short: "Run a program under a lease, on its GPU alone",
		Long: `Take a lease, then become the program. The program sees only the leased GPUs,
and berth holds it to its memory as far as this machine can. Its exit code and
its signals are its own. The lease ends with the program, also by kill -9. With
--time, berth ends the program when the time is over: SIGTERM, and SIGKILL after
the deallocation_timeout of the daemon. An event warns a tenth of the time
ahead, and at most 5 minutes.

Without --memory, the program gets as much as earlier runs of the same name used
and a margin. The first run gets a whole GPU, as with --exclusive: nobody else
has a lease there until it ends (gpu.plain: slot changes that). Inside a lease
of yours, it runs under that lease. --memory all is as much as the largest GPU
leases at all, and leaves its slots to others.

If there is no room, the request waits as long as it takes, or for --timeout.
Ctrl-C withdraws it. berth takes no lease and exits with 127 if there is no such
command, and with 126 if it cannot run it. berth help enforcement explains what
holds a program to its memory. With --isolation cgroup, the kernel refuses it
the GPUs that it has not leased, or berth refuses to start it.`,
		Example: `  berth exec --memory 8GiB -- python train.py
  berth exec -- python train.py
  berth exec --gpus 2 --memory 40GiB --timeout 1h -- torchrun fit.py
  berth exec --memory 8GiB --isolation cgroup -- python train.py
  berth exec --memory 8GiB --time 2h -- python train.py
  berth exec --memory 8GiB --dry-run -- python train.py`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return console.Usage("the command is missing: give it after --, as in berth exec --memory 8GiB -- python train.py")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			con.Unnoticed(cmd, args)
			return o.run(cmd.Context(), args)
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // flags after the command belong to the command
	con.LaunchFlags(cmd, &o.request)
	flags.BoolVar(&o.dryRun, "dry-run", false, "show the lease and the environment; take no lease")
	return cmd
}

func (o *execOptions) run(ctx context.Context, command []string) error {
	if o.Remote() {
		return console.Usage("exec needs the daemon of this machine, because it binds the lease to a process here: leave out --url and BERTH_URL")
	}
	if err := o.request.Finish(command); err != nil {
		return console.Usage("%v", err)
	}
	o.Endure()
	c, err := o.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	if err := o.nest(ctx, c); err != nil {
		return err
	}
	program, err := programs.NewExec(o.request, command, o.Environ, cmp.Or(o.Socket, o.Getenv("BERTH_SOCKET")))
	if err != nil {
		return err
	}
	if o.dryRun {
		return o.show(ctx, c, program)
	}
	granted, err := o.take(ctx, c, program)
	if err != nil {
		return err
	}
	if granted.Note != "" {
		fmt.Fprintln(o.Err, "berth: "+term.Clean(granted.Note))
	}
	// A slow disk may hold up the look for PyTorch, and a signal must end it all the same.
	environ, err := console.Unless(ctx, func() ([]string, error) { return program.Environment(granted), nil })
	if err != nil {
		return err
	}
	return o.become(program.File, command, environ)
}

// nest makes a plain request one for a child of the lease in which the command runs, if that
// still stands. Where that cannot be learned now, nest fails: the command would wait for a
// GPU alone, perhaps for the one that the lease around it has.
func (o *execOptions) nest(ctx context.Context, c *client.Client) error {
	id, fence, nested := o.request.Around(o.Environ)
	if !nested {
		return nil
	}
	within := o.request
	within.Within(id)
	around, err := c.Lease(ctx, id)
	if err == nil && around.Fence != fence { // a job runs it, and its user has a lease with the id of the job
		within.ParentFence, around.State = fence, "active"
		_, err = c.Explain(ctx, within.LeaseRequest) // refused if the lease of the job has ended, or by an older daemon
	}
	if problem := (*api.Problem)(nil); errors.As(err, &problem) && problem.Status < http.StatusInternalServerError && problem.Status != http.StatusTooManyRequests {
		return nil
	}
	if err == nil && around.State == "active" {
		o.request = within
	}
	return err
}

// take asks for the lease and waits for it.
func (o *execOptions) take(ctx context.Context, c *client.Client, program *programs.Exec) (api.Lease, error) {
	id, err := program.ID(ctx, c)
	if err != nil {
		return api.Lease{}, err
	}
	return await(ctx, o.Console, c, id, nil, func(ctx context.Context) (api.Lease, error) { return program.Acquire(ctx, c) })
}

// show says what would happen, without taking a lease.
func (o *execOptions) show(ctx context.Context, c *client.Client, program *programs.Exec) error {
	asked := o.request.LeaseRequest
	asked.ID = cmp.Or(asked.ID, o.request.Called+"-NUMBER")
	e, err := c.Explain(ctx, asked)
	if err != nil {
		return err
	}
	gpus, err := o.Indexes(ctx, c)
	if err != nil {
		return err
	}
	if e.Grant == nil {
		if o.JSON {
			return errors.Join(o.PrintJSON(e), console.ErrRefused)
		}
		fmt.Fprintln(o.Err, strings.Join(gpus.Explained(e, o.Screen()), "\n"))
		return console.ErrRefused
	}
	changes, receipt := program.Preview(*e.Grant)
	would := view.DryRun{Program: program.File, Grant: *e.Grant, Environment: changes, Receipt: receipt}
	return o.Answer(would, gpus.Would(would, o.Screen())...)
}
