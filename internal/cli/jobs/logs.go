package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"golang.org/x/text/runes"
	"golang.org/x/text/transform"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/file/tail"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

func newLogs(con *console.Console) *cobra.Command {
	r := &logReader{Console: con}
	cmd := &cobra.Command{
		Use:   "logs [USER/]ID|SERVICE",
		Short: "Show what a job or a service prints",
		Long: `Show the log of a job or of a task, also after its end, or of a service whose
program berth runs. With --follow, go on until the job has ended; for one that
waits, begin when it starts. For a job with tasks, show the log of each.

The log of your own job is a file that you can read as well; berth job ID names
it. A name instead of an id means your own job, the newest of those that have
ended; USER/NAME means that of another. The logs of others are for operators,
and the daemon reads them with the rights of the owner.`,
		Example:           "  berth logs train-17\n  berth logs train -f\n  berth logs sweep-18.3 --lines 20\n  berth logs train-17 --errors\n  berth logs chat -f",
		ValidArgsFunction: completeLogs(con),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case r.lines < 0 || cmd.Flags().Changed("lines") && r.lines == 0:
				return console.Usage("--lines must be 1 or more, not %d", r.lines)
			case con.JSON:
				return console.Usage("a log is no JSON: berth job %s --json names its file", words.Shell(args[0]))
			}
			return con.With(cmd.Context(), func(c *client.Client) error {
				r.client = c
				return r.read(cmd.Context(), args[0])
			})
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&r.follow, "follow", "f", false, "go on until the job has ended")
	flags.IntVarP(&r.lines, "lines", "n", 0, "show only the last `N` lines")
	flags.BoolVar(&r.errors, "errors", false, "show the log of errors, if the job has one of its own")
	return cmd
}

// patience is how often a follower looks at a log that does not grow.
const patience = 200 * time.Millisecond

// completeLogs returns a completion that offers services and the ids of jobs.
func completeLogs(con *console.Console) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, part string) ([]string, cobra.ShellCompDirective) {
		offers, directive := complete(con)(cmd, args, part)
		for _, s := range console.Known(con, cmd, (*client.Client).Services).Services {
			offers = append(offers, term.Clean(s.Name)+"\t"+term.Clean(s.State)+", service")
		}
		return offers, directive
	}
}

// logReader shows the log of a job or of a service.
type logReader struct {
	*console.Console
	client *client.Client
	follow bool
	lines  int    // only the last so many; 0 for all
	errors bool   // the log of errors
	user   string // who reads it
}

// read shows the log of what a name means: the job or task with this id, the service with
// this name, or the job or task with this name or beginning.
func (r *logReader) read(ctx context.Context, name string) error {
	job, err := r.client.Job(ctx, name)
	if name != "" && isUnknown(err) {
		if s, missed := r.client.Service(ctx, name); missed == nil {
			return r.service(ctx, s)
		}
		job, err = byName(ctx, r.client, name, func(id string) (api.Job, error) { return r.client.Job(ctx, id) })
	}
	if name != "" && isUnknown(err) {
		all := known(ctx, r.client)
		services, _ := r.client.Services(ctx) // without an answer there is nothing to suggest
		for _, s := range services.Services {
			all = append(all, s.Name)
		}
		return missing("job or service", name, cmp.Or(ofOthers(ctx, r.client, name), words.Suggest(name, words.Unlike(name, all), "berth jobs --all and berth services list them")), err)
	}
	if err != nil {
		return err
	}
	me, err := r.client.Whoami(ctx)
	if err != nil {
		return err
	}
	// Only the log of a job of one's own is read here, and with one's own rights: whoever
	// has more than those must not follow the paths of another user, and whoever shows the
	// token of that user has other rights.
	r.user = me.User
	own := me.User == job.User && me.Door == "socket" && me.Token == "" && !r.Remote()
	switch {
	case job.Tasks != nil && r.follow:
		return console.Hinted(fmt.Errorf("%s has %s, and each has a log of its own", job.ID, words.Count(job.Tasks.Total, "task")), "name one: berth logs "+firstTask(job)+" -f")
	case job.Tasks != nil:
		return r.readTasks(ctx, job, own)
	}
	return r.one(ctx, job, own, r.Out)
}

// service shows the log of a service. The daemon reads it: its file belongs to the user of
// the service.
func (r *logReader) service(ctx context.Context, s api.Service) error {
	if r.errors {
		return console.Usage("a service has one log, with its errors: leave --errors out")
	}
	me, err := r.client.Whoami(ctx)
	if err != nil {
		return err
	}
	return r.pass(r.Out, me.User == s.User, func(out io.Writer) error {
		return r.client.ServiceLog(ctx, s.Name, client.LogQuery{Lines: r.lines, Follow: r.follow}, out)
	})
}

// pass passes on what read writes. What the programs of others print gives no commands to a
// terminal.
func (r *logReader) pass(out io.Writer, own bool, read func(io.Writer) error) error {
	if _, screen := r.Terminal(); own || !screen {
		return read(out)
	}
	clean := transform.NewWriter(out, runes.Map(func(c rune) rune {
		if !unicode.IsGraphic(c) && !strings.ContainsRune("\t\r\n", c) {
			return '?'
		}
		return c
	}))
	return errors.Join(read(clean), clean.Close())
}

// firstTask returns the id of a task that is worth a look: the first that runs, or else
// the first.
func firstTask(job api.Job) string {
	for _, task := range job.List {
		if task.State == "running" {
			return task.ID
		}
	}
	if len(job.List) > 0 {
		return job.List[0].ID
	}
	return job.ID + ".1"
}

// readTasks shows the logs of the tasks of a job that have started, each under its id.
func (r *logReader) readTasks(ctx context.Context, job api.Job, own bool) error {
	shown := false
	for _, task := range job.List {
		if task.Started == nil {
			continue
		}
		if shown {
			fmt.Fprintln(r.Out)
		}
		shown = true
		whole, err := r.client.Job(ctx, task.ID) // of a task that runs, only this answer names the log
		if err != nil {
			return err
		}
		out := &titled{out: r.Out, title: fmt.Sprintf("==> %s <==\n", term.Clean(task.ID))}
		if err := r.one(ctx, whole, own, out); err != nil {
			return err
		}
		if _, err := out.Write(nil); err != nil { // the log is empty
			return err
		}
	}
	if !shown {
		r.nothing(job)
	}
	return nil
}

// titled writes a title before the first thing that is written to it: if there is nothing to
// show because that is refused, there is no title either.
type titled struct {
	out   io.Writer
	title string // empty once it is written
}

func (t *titled) Write(text []byte) (int, error) {
	if t.title != "" {
		if _, err := io.WriteString(t.out, t.title); err != nil {
			return 0, err
		}
		t.title = ""
	}
	return t.out.Write(text)
}

// one shows the log of one job or task.
func (r *logReader) one(ctx context.Context, job api.Job, own bool, out io.Writer) error {
	switch {
	case r.pathOf(job) == "" && (own || job.Started == nil) && (!r.follow || job.Over()):
		r.nothing(job)
		return nil
	case own && r.follow:
		return r.followFile(ctx, job)
	case own:
		return r.copyFile(job, out)
	}
	return r.pass(out, job.User == r.user, func(out io.Writer) error {
		return r.client.JobLog(ctx, job.ID, client.LogQuery{Errors: r.errors, Lines: r.lines, Follow: r.follow}, out)
	})
}

// nothing says that a job has not started.
func (r *logReader) nothing(job api.Job) {
	text := "has not started, and has printed nothing yet"
	if job.Over() {
		text = "never started, and has printed nothing"
	}
	fmt.Fprintf(r.Err, "berth: %s %s\n", term.Clean(job.ID), text)
}

// pathOf returns the file with the log of a job.
func (r *logReader) pathOf(job api.Job) string {
	if r.errors && job.ErrorLog != "" {
		return job.ErrorLog
	}
	return job.Log
}

// open opens the log of a job at the first line that is asked for.
func (r *logReader) open(job api.Job) (*os.File, error) {
	f, err := os.Open(r.pathOf(job))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the log of %s is gone: there is no file %s", job.ID, r.pathOf(job))
	}
	if err != nil {
		return nil, fmt.Errorf("read the log of %s: %w", job.ID, err)
	}
	if r.lines > 0 {
		if err := seek(f, r.lines); err != nil {
			_ = f.Close()
			return nil, fmt.Errorf("read the log of %s: %w", job.ID, err)
		}
	}
	return f, nil
}

// seek moves to the last lines of a file.
func seek(f *os.File, lines int) error {
	about, err := f.Stat()
	if err != nil {
		return err
	}
	start, err := tail.Start(f, 0, about.Size(), lines)
	if err != nil {
		return err
	}
	_, err = f.Seek(start, io.SeekStart)
	return err
}

// copyFile shows a log as it is now.
func (r *logReader) copyFile(job api.Job, out io.Writer) error {
	f, err := r.open(job)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(out, f)
	return err
}

// followFile shows a log, and what is added to it until the job has ended. If the job is
// tried again, the log of the new try follows.
func (r *logReader) followFile(ctx context.Context, job api.Job) error {
	asking, stop := context.WithCancel(ctx)
	defer stop()
	type end struct {
		job api.Job
		err error
	}
	ended := make(chan end, 1)
	go func() {
		last, err := r.client.WaitJob(asking, job.ID)
		ended <- end{last, err}
	}()
	tick := time.NewTicker(patience)
	defer tick.Stop()
	log := followed{logReader: r}
	defer log.close()
	for quiet := 0; ; quiet++ {
		if err := log.show(job); err != nil {
			return err
		}
		select {
		case last := <-ended:
			if last.err != nil {
				return last.err
			}
			if r.pathOf(last.job) == "" {
				r.nothing(last.job)
			}
			return log.show(last.job)
		case <-tick.C:
		}
		const often = 5
		if quiet%often == 0 { // a later try has another log
			if newest, err := r.client.Job(ctx, job.ID); err == nil {
				job = newest
			}
		}
	}
}

// followed is a log that grows.
type followed struct {
	*logReader
	path string   // of the file; empty if the job has not started
	file *os.File // nil if the job has not started
}

// show shows what has been added to the log of a job, and goes on to the log of a new try.
func (l *followed) show(job api.Job) error {
	if l.file != nil {
		if _, err := io.Copy(l.Out, l.file); err != nil {
			return err
		}
	}
	path := l.logReader.pathOf(job)
	if path == l.path || path == "" {
		return nil
	}
	if l.file != nil {
		fmt.Fprintf(l.Err, "berth: %s, try %d\n", term.Clean(job.ID), job.Try)
	}
	file, err := l.open(job)
	if err != nil {
		return err
	}
	l.close()
	l.path, l.file = path, file
	_, err = io.Copy(l.Out, file)
	return err
}

func (l *followed) close() {
	if l.file != nil {
		_ = l.file.Close()
	}
}
