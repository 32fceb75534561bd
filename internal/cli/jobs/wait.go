package jobs

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/term"
)

// The exit codes of berth wait for jobs that have no exit code of their own.
const (
	exitCancelled = 122
	exitLost      = 123
	exitTimedOut  = 124 // as timeout(1) has it
)

func newWait(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "wait ID...",
		Short: "Wait for the end of jobs, and take their exit code",
		Long: `Wait until jobs or tasks have ended, say how each ended, and exit with the exit
code of the job: 0 if it succeeded, its own if it failed (128 and the number of
a signal that ended it), 124 if its time was over, 122 if it was cancelled, and
123 if it is lost: nobody knows how it ended. Of several jobs, or tasks, the
first that did not succeed decides.

A job that is retried or queued again has not ended. The daemon may be restarted
meanwhile. If you interrupt the command, the jobs run on.`,
		Example: `  berth wait train-17 && berth submit -- python evaluate.py
  berth wait sweep-18 sweep-19
  id=$(berth submit --memory 8GiB -- python train.py); berth wait $id`,
		ValidArgsFunction: complete(con, living...),
		RunE: func(cmd *cobra.Command, args []string) error {
			con.Endure()
			return con.With(cmd.Context(), func(c *client.Client) error { return waitFor(cmd.Context(), con, c, args) })
		},
	}
}

// waitFor waits for jobs, says how each ended, and returns their exit code as an error.
func waitFor(ctx context.Context, con *console.Console, c *client.Client, names []string) error {
	if len(names) > 1 { // one that nobody has is told of before the first has ended
		names = slices.Clone(names)
		for i, name := range names {
			job, err := byName(ctx, c, name, func(id string) (api.Job, error) { return c.Job(ctx, id) })
			if err != nil {
				return err
			}
			names[i] = job.ID
		}
	}
	var first error // of the job that decides
	for _, name := range names {
		job, err := byName(ctx, c, name, func(id string) (api.Job, error) { return c.WaitJob(ctx, id) })
		if err != nil {
			return runsOn(ctx, name, err)
		}
		if err := console.AnswerOne(con, job, func(j api.Job, _ term.Screen) string { return view.JobEnd(j) }); err != nil {
			return err
		}
		if first == nil {
			first = exitOf(deciding(ctx, c, job))
		}
	}
	return first
}

// deciding returns the task that decides the exit code of a job: the first that did not
// succeed.
func deciding(ctx context.Context, c *client.Client, job api.Job) api.Job {
	if job.Tasks == nil || job.State == "done" {
		return job
	}
	whole, err := c.Job(ctx, job.ID)
	if err != nil {
		return job // its state says enough
	}
	for _, task := range whole.List {
		if task.State != "done" {
			return task
		}
	}
	return job
}

// runsOn adds to an interrupt that the job runs on.
func runsOn(ctx context.Context, id string, err error) error {
	if !console.IsInterrupted(ctx, err) {
		return err
	}
	return console.Hinted(fmt.Errorf("%s runs on: %w", id, context.Cause(ctx)), "end it: berth cancel "+id)
}

// exitOf returns the exit code of a job that has ended, as an error, or nil if it
// succeeded.
func exitOf(j api.Job) error {
	switch j.State {
	case "done":
		return nil
	case "timed_out":
		return console.Exit(exitTimedOut)
	case "cancelled":
		return console.Exit(exitCancelled)
	case "lost":
		return console.Exit(exitLost)
	}
	return console.Exit(max(j.Exit.Or(1), 1)) // a command that could not be started has no exit code
}
