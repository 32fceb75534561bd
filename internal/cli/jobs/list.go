package jobs

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/words"
)

// recently is how long berth jobs shows a job after its end, unless it is told.
const recently = 24 * time.Hour

type listOptions struct {
	*console.Console
	all    bool
	users  []string
	states []string
	since  string
	watch  time.Duration // 0 to show once
}

func newJobs(con *console.Console) *cobra.Command {
	o := &listOptions{Console: con}
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "Show what runs, what waits and what has ended",
		Long: `Show your jobs, then those of others: what runs, what waits and why, what is
held, and those of yours that ended in the last 24 hours. A job with an array or
parameters is one line; berth job ID lists its tasks.

TIME is how long a job has waited, runs, or ran. With --all, show all jobs that
the daemon remembers: it keeps those that have ended for 90 days.`,
		Example: `  berth jobs
  berth jobs --watch
  berth jobs --all
  berth jobs --user ada --user ben --since 7d
  berth jobs --state failed,timed_out --since 7d
  berth jobs --json | jq -r '.jobs[] | select(.state == "failed") | .id'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return console.Usage("jobs takes no argument %q: berth job %s shows one job", args[0], words.Shell(args[0]))
			}
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.all, "all", false, "show every job that the daemon remembers")
	flags.StringSliceVar(&o.users, "user", nil, "show jobs of this `USER`, or of several")
	flags.StringSliceVar(&o.states, "state", nil, "show jobs in a `STATE`, or in several: held,\nwaiting, starting, running, parked, done,\nfailed, cancelled, timed_out, lost")
	flags.StringVar(&o.since, "since", "", "show also jobs that ended after this `TIME`, as\nin 7d (default: your own of the last 24 hours)")
	console.CompleteWith(cmd, "state", allStates)
	console.CompleteFlag(cmd, "user", con.Users())
	console.WatchFlag(cmd, &o.watch)
	return cmd
}

var allStates = append(slices.Clone(living), "parked", "done", "failed", "cancelled", "timed_out", "lost")

func (o *listOptions) run(ctx context.Context) error {
	query := client.JobQuery{User: strings.Join(o.users, ",")}
	for _, state := range o.states {
		state = strings.ReplaceAll(strings.TrimSpace(state), " ", "_")
		if !slices.Contains(allStates, state) {
			return console.Near(console.Usage("there is no state %q", state), state, allStates, "use "+strings.Join(allStates, ", "))
		}
		if state == "parked" {
			state = "running" // ask leaves out the others
		}
		query.States = append(query.States, state)
	}
	since, err := console.Moment(o.since, o.Now())
	switch {
	case err != nil:
		return console.Usage("--since %v", err)
	case o.all && o.since != "":
		return console.Usage("give --all or --since, not both")
	}
	return o.With(ctx, func(c *client.Client) error {
		me, err := c.Whoami(ctx)
		if err != nil {
			return err
		}
		return o.Tell(ctx, o.watch, func(ctx context.Context) (console.Shown, error) {
			query := query
			switch {
			case o.all:
			case o.since != "":
				query.Since = since
			default:
				query.Since = o.Now().Add(-recently)
			}
			return o.ask(ctx, c, me.User, query)
		})
	})
}

func (o *listOptions) ask(ctx context.Context, c *client.Client, me string, query client.JobQuery) (console.Shown, error) {
	gpus, err := o.Indexes(ctx, c)
	if err != nil {
		return console.Shown{}, err
	}
	jobs, err := c.Jobs(ctx, query)
	if err != nil {
		return console.Shown{}, err
	}
	chosen := len(o.users) > 0 || len(o.states) > 0
	if !o.all && o.since == "" && !chosen {
		jobs.Jobs = slices.DeleteFunc(jobs.Jobs, func(j api.Job) bool { return j.Over() && j.User != me })
	}
	if slices.Contains(o.states, "parked") && !slices.Contains(o.states, "running") {
		jobs.Jobs = slices.DeleteFunc(jobs.Jobs, func(j api.Job) bool { return j.State == "running" })
	}
	return console.Shown{Answer: jobs, Lines: (&view.Jobs{Jobs: jobs, GPUs: gpus, Me: me, Filtered: chosen}).Lines}, nil
}

func newJob(con *console.Console) *cobra.Command {
	return console.Watch(con, &cobra.Command{
		Use:   "job ID",
		Short: "Show everything about a job",
		Long: `Show everything about a job: its state and why, its exit code, its command,
folder and log, how long it waited and ran, what it used, and what it waits for.
For a job with an array or parameters, list its tasks; ID.3 is task 3.

An ID is train-17, or a name or the beginning of one, if only one job has it.
Command, folder and log are shown to the owner and to operators.`,
		Example:           "  berth job train-17\n  berth job sweep-18.3\n  berth job train --watch\n  berth job train-17 --json | jq .exit_code",
		ValidArgsFunction: complete(con),
	}, func(args []string) error {
		if len(args) > 1 {
			return console.Usage("job shows one job, not %q and %q", args[0], args[1])
		}
		return nil
	}, func(ctx context.Context, c *client.Client, args []string) (console.Shown, error) {
		gpus, err := con.Indexes(ctx, c)
		if err != nil {
			return console.Shown{}, err
		}
		job, err := byName(ctx, c, args[0], func(id string) (api.Job, error) { return c.Job(ctx, id) })
		if err != nil {
			return console.Shown{}, err
		}
		return console.Shown{Answer: job, Lines: (&view.Job{Job: job, Indexes: gpus, Tail: tailOf(ctx, con, c, job)}).Lines}, nil
	})
}

// mostTail is how many lines of a log are searched for why a job failed.
const mostTail = 40

// tailOf returns the end of the log of a job that failed. Whoever may not read it, finds
// none, or waits too long for it, is shown the job without it.
func tailOf(ctx context.Context, con *console.Console, c *client.Client, j api.Job) []string {
	if con.JSON || j.State != "failed" || j.Tasks != nil || j.Log == "" {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, 2*time.Second)
	defer stop()
	var end lastPart
	if err := c.JobLog(ctx, j.ID, client.LogQuery{Errors: j.ErrorLog != "", Lines: mostTail}, &end); err != nil {
		return nil
	}
	lines := strings.FieldsFunc(string(end), func(r rune) bool { return r == '\n' || r == '\r' })
	return lines[max(len(lines)-mostTail, 0):]
}

// lastPart keeps the last 64 KiB of what is written to it: the line of a progress bar may
// be as long as its log.
type lastPart []byte

func (l *lastPart) Write(p []byte) (int, error) {
	*l = append(*l, p...)
	*l = slices.Delete(*l, 0, max(len(*l)-1<<16, 0))
	return len(p), nil
}
