package jobs

import (
	"context"
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/term"
)

func newHold(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "hold ID...",
		Short: "Keep waiting jobs from starting",
		Long: `Keep jobs or tasks that wait from starting, until berth unhold. What runs goes
on. You can hold your own jobs; operators hold every job.`,
		Example:           "  berth hold train-17\n  berth hold sweep-18 sweep-19.3",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: complete(con, "waiting"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return each(cmd.Context(), con, args, (*client.Client).HoldJob, view.JobHeld)
		},
	}
}

func newUnhold(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:               "unhold ID...",
		Short:             "Let jobs that are held start",
		Long:              `Let jobs or tasks that are held start at their turn.`,
		Example:           "  berth unhold train-17\n  berth unhold sweep",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: complete(con, "held"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return each(cmd.Context(), con, args, (*client.Client).UnholdJob, view.JobHeld)
		},
	}
}

func newRedo(con *console.Console) *cobra.Command {
	var body api.JobRedo
	cmd := &cobra.Command{
		Use:   "redo ID...",
		Short: "Submit jobs again, or only the tasks that failed",
		Long: `Submit jobs again under new ids, with the command, folder and environment that
they had. With --failed, the new job has only the tasks that did not end well.
The old jobs and their logs stay as they are. Prints the new ids.`,
		Example:           "  berth redo train-17\n  berth redo --failed sweep-18",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: complete(con),
		RunE: func(cmd *cobra.Command, args []string) error {
			return each(cmd.Context(), con, args, func(c *client.Client, ctx context.Context, id string) (api.Job, error) {
				return c.RedoJob(ctx, id, body)
			}, func(j api.Job, _ term.Screen) string { return term.Clean(j.ID) })
		},
	}
	cmd.Flags().BoolVar(&body.Failed, "failed", false, "only the tasks that did not end well")
	return cmd
}

func newPriority(con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "priority ID NUMBER",
		Short: "Change the priority of a job that waits",
		Long: `Change the priority of a job or task that waits: higher goes first. You can
lower that of your own jobs; operators set that of every job.

Write a number below 0 after two dashes: berth priority train-17 -- -5.`,
		Example:           "  berth priority train-17 -- -5\n  sudo berth priority train-17 10",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: complete(con, "waiting", "held"),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[1])
			if err != nil {
				return console.Usage("the priority must be a whole number, as in 10 or -5, not %q", args[1])
			}
			return each(cmd.Context(), con, args[:1], func(c *client.Client, ctx context.Context, id string) (api.Job, error) {
				return c.ChangeJob(ctx, id, api.JobChange{Priority: gpu.Some(n)})
			}, view.JobPriority)
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return console.Hinted(console.Usage("%v", err), "write a number below 0 after two dashes: berth priority ID -- -5")
	})
	return cmd
}

func newCancel(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "cancel ID...",
		Short: "End jobs, or withdraw those that wait",
		Long: `Cancel jobs or tasks. What waits never starts. What runs gets SIGTERM, and
SIGKILL after the deallocation_timeout of the daemon; what has ended stays as it
is. Jobs that come after a cancelled one (--after) are cancelled too.

You can cancel your own jobs; operators cancel every job.`,
		Example:           "  berth cancel train-17\n  berth cancel sweep-18.3 sweep-18.4\n  berth cancel train",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: complete(con, living...),
		RunE: func(cmd *cobra.Command, args []string) error {
			return each(cmd.Context(), con, args, (*client.Client).CancelJob, view.JobCancelled)
		},
	}
}

// each changes the jobs that names mean, one after the other, and says what became of each.
// A failure does not keep it from the next.
func each(ctx context.Context, con *console.Console, names []string,
	do func(c *client.Client, ctx context.Context, id string) (api.Job, error), say func(api.Job, term.Screen) string) error {
	return con.With(ctx, func(c *client.Client) error {
		var failures []error
		for _, name := range names {
			job, err := byName(ctx, c, name, func(id string) (api.Job, error) { return do(c, ctx, id) })
			if err == nil {
				err = console.AnswerOne(con, job, say)
			}
			failures = append(failures, err)
		}
		return errors.Join(failures...)
	})
}
