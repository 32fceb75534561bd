// Package jobs holds the commands about jobs: those that submit, change and end one, and
// those that show what became of it.
package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/berth-gpu/berth/internal/text/words"
	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/text/term"
)

// Commands returns the commands about jobs.
func Commands() []console.Command {
	return []console.Command{
		console.Make(newSubmit, "submit"),
		console.Make(newJobs, "jobs"),
		console.Make(newJob, "job"),
		console.Make(newLogs, "logs"),
		console.Make(newWait, "wait"),
		console.Make(newCancel, "cancel"),
		console.Make(newHold, "hold"),
		console.Make(newUnhold, "unhold"),
		console.Make(newRedo, "redo"),
		console.Make(newPriority, "priority"),
	}
}

// living are the states of a job that has not ended. To the daemon, one that is parked
// runs.
var living = []string{"held", "waiting", "starting", "running"}

// byName calls do with the id of the job or task that a name means. It asks with the name
// itself first, because that is an id most often.
func byName[T any](ctx context.Context, c *client.Client, name string, do func(id string) (T, error)) (T, error) {
	answer, err := do(name)
	if name == "" || !isUnknown(err) {
		return answer, err
	}
	id, found := pick(ctx, c, name)
	switch {
	case errors.Is(found, console.ErrNothing):
		return answer, missing("job", name, cmp.Or(ofOthers(ctx, c, name), words.Suggest(name, words.Unlike(name, known(ctx, c)), "berth jobs --all lists them")), err)
	case found != nil:
		return answer, found
	}
	return do(id)
}

// known returns the ids and names of all jobs, among which to look for the one that was
// meant.
func known(ctx context.Context, c *client.Client) (all []string) {
	jobs, _ := c.Jobs(ctx, client.JobQuery{}) // without an answer there is nothing to suggest
	for _, j := range jobs.Jobs {
		all = append(all, j.ID, j.Name)
	}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

// missing says that nothing has a name or an id, instead of the daemon, which knows only
// ids. If the daemon misses something else, its own words stand.
func missing(what, name, next string, err error) error {
	if !console.IsProblem(err, "unknown_job", "unknown_allocation") {
		return err
	}
	return console.Hinted(console.Reworded(err, fmt.Sprintf("there is no %s with the id or the name %s", what, name)), next)
}

// isUnknown reports whether the daemon has no job with an id.
func isUnknown(err error) bool {
	problem := (*api.Problem)(nil)
	return errors.As(err, &problem) && problem.Status == http.StatusNotFound && problem.Code != "unknown_path"
}

// taskNumber is what follows the name of a job in that of a task.
var taskNumber = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(.+)(\.[0-9]+)$`) })

// pick returns the id of the job or task that a name means: an own one, or that of a user
// for USER/NAME. Those that have not ended come first. Of those that have and are called
// so, the newest is meant.
func pick(ctx context.Context, c *client.Client, name string) (id string, err error) {
	user, name, err := whose(ctx, c, name)
	if err != nil {
		return "", err
	}
	alive, ended, err := console.Jobs(ctx, c, user, client.JobQuery{States: living})
	if err == nil && !slices.ContainsFunc(alive, func(n console.Named) bool { return n.Name == name }) {
		alive, ended, err = console.Jobs(ctx, c, user, client.JobQuery{})
	}
	if err != nil {
		return "", err
	}
	return pickJob(name, alive, ended)
}

// pickJob does what [console.Pick] does, also for the tasks of jobs: NAME.3 is that of the
// job that NAME means.
func pickJob(name string, groups ...[]console.Named) (id string, err error) {
	id, err = console.Pick(name, groups...)
	if task := taskNumber().FindStringSubmatch(name); errors.Is(err, console.ErrNothing) && task != nil {
		if id, err = console.Pick(task[1], groups...); err == nil {
			id += task[2]
		}
	}
	return id, err
}

// whose returns the user whose job or lease a text means, and its name: the text is NAME
// for an own one, or USER/NAME.
func whose(ctx context.Context, c *client.Client, text string) (user, name string, err error) {
	if user, name, found := strings.Cut(text, "/"); found && user != "" && name != "" {
		return user, name, nil
	}
	me, err := c.Whoami(ctx)
	return me.User, text, err
}

// ofOthers says how to name the job of another user that has a name, or "" if there is
// none that has not ended.
func ofOthers(ctx context.Context, c *client.Client, name string) string {
	all, _ := c.Jobs(ctx, client.JobQuery{States: living}) // without an answer there is nothing to suggest
	for _, j := range all.Jobs {
		if j.Name == name {
			return fmt.Sprintf("%s of %s is called so, and is not yours: name it by its id, or as %s/%s", term.Clean(j.ID), term.Clean(j.User), term.Clean(j.User), term.Clean(name))
		}
	}
	return ""
}

// complete returns a completion that offers the ids of jobs in some states, and of all
// jobs if there are none. It offers each once.
func complete(con *console.Console, states ...string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) (offers []string, _ cobra.ShellCompDirective) {
		all := console.Known(con, cmd, func(c *client.Client, ctx context.Context) (api.Jobs, error) {
			return c.Jobs(ctx, client.JobQuery{States: states, Limit: 100})
		})
		for _, j := range all.Jobs {
			offers = append(offers, term.Clean(j.ID)+"\t"+term.Clean(j.State)+", "+term.Clean(j.User))
		}
		return offers, console.NoFiles
	}
}
