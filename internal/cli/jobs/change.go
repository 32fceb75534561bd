package jobs

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/internal/text/words"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/term"
)

func newHold(con *console.Console) *cobra.Command {
	return onJobs(con, &cobra.Command{
		Use:   "hold ID...",
		Short: "Keep waiting jobs from starting",
		Long: `Keep jobs or tasks that wait from starting, until berth unhold. What runs goes
on. You can hold your own jobs; operators hold every job.`,
		Example:           "  berth hold train-17\n  berth hold sweep-18 sweep-19.3",
		ValidArgsFunction: complete(con, "waiting"),
	}, (*client.Client).HoldJob, view.JobHeld)
}

func newUnhold(con *console.Console) *cobra.Command {
	return onJobs(con, &cobra.Command{
		Use:               "unhold ID...",
		Short:             "Let jobs that are held start",
		Long:              `Let jobs or tasks that are held start at their turn.`,
		Example:           "  berth unhold train-17\n  berth unhold sweep",
		ValidArgsFunction: complete(con, "held"),
	}, (*client.Client).UnholdJob, view.JobHeld)
}

func newRedo(con *console.Console) *cobra.Command {
	var body api.JobRedo
	cmd := onJobs(con, &cobra.Command{
		Use:   "redo ID...",
		Short: "Submit jobs again, or only the tasks that failed",
		Long: `Submit jobs again under new ids, with the command, folder and environment that
they had. With --failed, the new job has only the tasks that did not end well.
The old jobs and their logs stay as they are. Prints the new ids.`,
		Example:           "  berth redo train-17\n  berth redo --failed sweep-18",
		ValidArgsFunction: complete(con),
	}, func(c *client.Client, ctx context.Context, id string) (api.Job, error) {
		return c.RedoJob(ctx, id, body)
	}, func(j api.Job, _ term.Screen) string { return term.Clean(j.ID) })
	cmd.Flags().BoolVar(&body.Failed, "failed", false, "only the tasks that did not end well")
	return cmd
}

func newPriority(con *console.Console) *cobra.Command {
	var change api.JobChange
	cmd := onJobs(con, &cobra.Command{
		Use:   "priority ID NUMBER",
		Short: "Change the priority of a job that waits",
		Long: `Change the priority of a job or task that waits: higher goes first. You can
lower that of your own jobs; operators set that of every job.

Write a number below 0 after two dashes: berth priority train-17 -- -5.`,
		Example:           "  berth priority train-17 -- -5\n  sudo berth priority train-17 10",
		ValidArgsFunction: complete(con, "waiting", "held"),
		PreRunE: func(_ *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[1])
			if err != nil {
				return console.Usage("the priority must be a whole number, as in 10 or -5, not %q", args[1])
			}
			change.Priority = gpu.Some(n)
			return nil
		},
	}, func(c *client.Client, ctx context.Context, id string) (api.Job, error) {
		return c.ChangeJob(ctx, id, change)
	}, view.JobPriority)
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		unknown := (*pflag.NotExistError)(nil)
		if !errors.As(err, &unknown) || strings.Trim(unknown.GetSpecifiedShortnames(), "0123456789") != "" || unknown.GetSpecifiedShortnames() == "" {
			return err
		}
		return console.Usage("a number below 0 comes after two dashes: write berth priority ID -- -%s", unknown.GetSpecifiedShortnames())
	})
	return cmd
}

func newCancel(con *console.Console) *cobra.Command {
	var body api.Cancel
	cmd := &cobra.Command{
		Use:   "cancel [USER/]ID...",
		Short: "End jobs, or leases with their programs",
		Long: `Cancel jobs, tasks, or leases with their programs. What waits never starts: a
request is withdrawn. What runs gets SIGTERM, and SIGKILL after the
optimization.deallocation_timeout of the daemon; the programs of a parked lease
get SIGKILL at once. The command returns when the daemon has written that down:
a restart of the daemon changes nothing about it. Jobs that come after a
cancelled one (--after) are cancelled too.

A name, or a beginning that only one name has, means your own job or lease. Name
that of another user by its id, or as USER/NAME.

You can cancel your own jobs and leases; berth then ends only processes that you
could signal yourself, and an event names the others. Operators cancel all, with
all their processes. The lease of a batch means the runner of the batch. A lease
that belongs to a pod is refused: delete the pod.

To end only a lease, and let its programs run on: berth release --keep-running`,
		Example: `  berth cancel train-17
  berth cancel sweep-18.3 sweep-18.4
  berth cancel train --reason "wrong data"
  berth cancel ada/embedder`,
		ValidArgsFunction: complete(con, living...),
		RunE: func(cmd *cobra.Command, args []string) error {
			if body.Fence != 0 && len(args) > 1 {
				return console.Usage("--fence is the number of one lease; name only that one")
			}
			return con.With(cmd.Context(), func(c *client.Client) error {
				var failures []error
				for _, name := range args {
					failures = append(failures, cancel(cmd.Context(), con, c, name, body))
				}
				return errors.Join(failures...)
			})
		},
	}
	cmd.Flags().Uint64Var(&body.Fence, "fence", 0, "`NUMBER` that came with a lease")
	cmd.Flags().StringVar(&body.Why, "reason", "", "`TEXT` that its user and operators read about it")
	return cmd
}

// cancel cancels what a name means: the job or the lease with that id, or else the user's own
// one with that name or beginning.
func cancel(ctx context.Context, con *console.Console, c *client.Client, name string, body api.Cancel) error {
	err := cancelExact(ctx, con, c, name, body)
	if name == "" || !isUnknown(err) {
		return err
	}
	id, found := pickAny(ctx, c, name)
	switch {
	case errors.Is(found, console.ErrNothing):
		if next := ofOthers(ctx, c, name); next != "" {
			return missing("job, lease or request of yours", name, next, err)
		}
		all := known(ctx, c)
		if at := slices.IndexFunc(all, func(id string) bool { return strings.HasSuffix(id, "-"+name) }); at >= 0 { // the number alone
			return missing("job, lease or request", name, "did you mean "+all[at]+"?", err)
		}
		leases, _ := c.Leases(ctx) // without an answer there is nothing to suggest
		for id := range view.Holders(leases) {
			all = append(all, id)
		}
		return missing("job, lease or request", name, words.Suggest(name, words.Unlike(name, all), "berth jobs --all and berth leases list them"), err)
	case found != nil:
		return found
	}
	return cancelExact(ctx, con, c, id, body)
}

// cancelExact cancels the job with an id, or else the lease or the request. A fence is that
// of a lease.
func cancelExact(ctx context.Context, con *console.Console, c *client.Client, id string, body api.Cancel) error {
	if body.Fence == 0 {
		job, err := c.CancelJob(ctx, id, body.Why)
		if err == nil {
			return console.AnswerOne(con, job, view.JobCancelled)
		}
		if id == "" || !isUnknown(err) {
			return err
		}
	}
	of, bare := c, id
	if user, rest, found := strings.Cut(id, "/"); found && user != "" && rest != "" {
		of, bare = c.Of(user), rest
	}
	ended, err := of.Cancel(ctx, bare, body)
	if err != nil {
		return err
	}
	gpus, err := con.Indexes(ctx, c)
	if err != nil {
		return err
	}
	return console.AnswerOne(con, ended, func(e api.Ended, to term.Screen) string { return strings.Join(gpus.Cancelled(e, to), "\n") })
}

// pickAny returns the id of the job, lease or request that a name means: an own one, or
// that of a user for USER/NAME. Leases and requests of others get their user before the id.
func pickAny(ctx context.Context, c *client.Client, text string) (string, error) {
	user, name, err := whose(ctx, c, text)
	if err != nil {
		return "", err
	}
	alive, ended, err := console.Jobs(ctx, c, user, client.JobQuery{})
	if err != nil {
		return "", err
	}
	leases, _, past, err := console.Leases(ctx, c, user)
	if err != nil {
		return "", err
	}
	is := func(id string) func(console.Named) bool { return func(n console.Named) bool { return n.ID == id } }
	under := func(jobs []console.Named) func(console.Named) bool { // whether a lease is that of one of these jobs or a task of it, which stands for it
		return func(l console.Named) bool {
			of := l.ID
			if task := taskNumber().FindStringSubmatch(of); task != nil {
				of = task[1]
			}
			return slices.ContainsFunc(jobs, is(of))
		}
	}
	leases = slices.DeleteFunc(leases, under(alive))
	past = slices.DeleteFunc(past, under(slices.Concat(alive, ended))) // a job that is tried again has had leases
	id, err := pickJob(name, slices.Concat(alive, leases), ended, past)
	if err == nil && (name != text && slices.ContainsFunc(leases, is(id)) || slices.ContainsFunc(past, is(id))) {
		id = user + "/" + id // what has ended must not mean a lease of somebody else
	}
	return id, err
}

// onJobs returns a command that has the daemon change the jobs that its arguments name, and
// says what became of each.
func onJobs(con *console.Console, cmd *cobra.Command,
	do func(c *client.Client, ctx context.Context, id string) (api.Job, error), say func(api.Job, term.Screen) string) *cobra.Command {
	return console.ActOnEach(con, cmd, func(ctx context.Context, c *client.Client, name string) (api.Job, error) {
		return byName(ctx, c, name, func(id string) (api.Job, error) { return do(c, ctx, id) })
	}, say)
}
