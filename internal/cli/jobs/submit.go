package jobs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/process/child"
	"github.com/berth-gpu/berth/internal/process/launch"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

type submitOptions struct {
	*console.Console
	launch launch.Request
	job    api.JobRequest

	params                    []string
	after, afterAny, afterBad []string // jobs, by name
	begin                     string
	signal                    string
	folder                    string
	variables                 []string
	export                    string
	host                      console.Memory
	wait, follow              bool
}

func newSubmit(con *console.Console) *cobra.Command {
	o := &submitOptions{Console: con}
	cmd := &cobra.Command{
		Use:   "submit [flags] {FILE | -- COMMAND} [ARGUMENT]...",
		Short: "Run a program in the background, when there is room for it",
		Long: `Submit a job: berth runs the command as you, under a lease, as soon as there is
room and its turn has come, in this folder and with this environment. Print the
id of the job and return. You can log out; the job also outlives a restart of
the daemon. What it prints goes to berth-ID.log in its folder.

A FILE is a script. Lines in it that begin with #BERTH have flags, before the
first command; flags on the command line win. berth runs a shell script as it is
now, whatever you write into the file later.

Without --memory, the job gets as much as earlier runs of the same name used and
a margin, or else a GPU alone. It waits as long as it takes.

--array and --param make tasks, which run side by side: ID.1, ID.2, and so on.
A task finds its number in BERTH_TASK and its parameters in BERTH_PARAM_NAME,
and {NAME} in the command stands for the value. The program also finds BERTH_JOB
and BERTH_LEASE.

--retry runs a task again that failed by its exit code, by a signal or for lack
of memory, each time with a log of its own. --requeue queues a job again that a
reboot or the fault of a GPU ended, and with =time one whose time was over.

With --wait or --follow, exit as berth wait does. If you interrupt that, the job
runs on.`,
		Example: `  berth submit --memory 8GiB -- python train.py
  berth submit --name train --time 4h --signal USR1@60s -- python train.py
  berth submit --memory 8GiB --array 1-20%4 -- sh -c 'python fit.py $BERTH_TASK'
  berth submit --param lr=0.1,0.01 --param bs=32,64 -- python train.py {lr} {bs}
  berth submit --after train-17 -- python evaluate.py
  berth submit --begin 22:00 --retry 2 train.sh
  berth submit --memory 8GiB --follow -- python train.py
  berth submit --memory 8GiB --dry-run -- python train.py`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return console.Usage("the command is missing: give it after --, as in berth submit --memory 8GiB -- python train.py, or name a script")
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // flags after the command belong to the command
	con.LaunchFlags(cmd, &o.launch, "id", "pool")
	flags.Lookup("name").Usage = "the id begins with it, and what was learned is\nremembered under it; others see it (default: job,\nand the name of the program to remember)"
	flags.Lookup("timeout").Usage = "give up if there is no room this long after it could\nbegin, as in 10m (default: wait as long as it takes)"
	flags.StringVar(&o.job.Array, "array", "", "run a task for each of these `NUMBERS`, as in 1-20 or\n1,3,7 or 0-100:10; %4 at the end: 4 at a time")
	flags.StringArrayVar(&o.params, "param", nil, "run a task for each value, as in lr=0.1,0.01; with\nseveral flags `NAME=A,B`, for each combination")
	flags.StringSliceVar(&o.after, "after", nil, "begin when the jobs `IDS` have succeeded")
	flags.StringSliceVar(&o.afterAny, "after-any", nil, "begin when the jobs `IDS` have ended, however")
	flags.StringSliceVar(&o.afterBad, "after-failed", nil, "begin when the jobs `IDS` have ended, and one not well")
	flags.StringVar(&o.begin, "begin", "", "begin at this `TIME` or later: 22:00, now+2h or a date")
	flags.BoolVar(&o.job.Hold, "hold", false, "do not begin before berth unhold")
	flags.IntVar(&o.job.Retry, "retry", 0, "run a task that fails again, up to `N` times")
	flags.Var((*requeueValue)(&o.job.Requeue), "requeue", "queue it again after a reboot or the fault of a GPU;\nwith =time also after its time limit")
	flags.Lookup("requeue").NoOptDefVal = "true"
	flags.StringVar(&o.signal, "signal", "", "send this `SIGNAL` before its time limit, as in\nUSR1@60s")
	flags.StringVar(&o.job.Output, "output", "", "`FILE` for what it prints; %j is the id, %n the try\n(default berth-%j.log)")
	flags.StringVar(&o.job.Error, "error", "", "`FILE` for its errors (default: the same)")
	flags.StringVar(&o.folder, "chdir", "", "run it in this `FOLDER` (default: this one)")
	flags.StringArrayVar(&o.variables, "env", nil, "set a variable, as in `NAME=VALUE`; NAME alone\npasses on the value that it has here")
	flags.StringVar(&o.export, "export", "all", "`WHAT` of this environment it gets: all, or none for a\nplain one")
	flags.Float64Var(&o.job.CPUs, "cpus", 0, "`N` CPUs that each task may use at most, as in 4 or\n0.5 (default: no limit)")
	flags.Var(&o.host, "host-memory", "`SIZE` of the machine's memory that each task may use\nat most, as in 16GiB (default: no limit)")
	flags.StringVar(&o.launch.Comment, "comment", "", "a note of yours, a `TEXT` for people")
	flags.BoolVar(&o.wait, "wait", false, "wait for its end, and take its exit code")
	flags.BoolVar(&o.follow, "follow", false, "show what it prints, and take its exit code")
	flags.BoolVar(&o.job.DryRun, "dry-run", false, "show what would be asked for and when it would begin")
	console.CompleteWith(cmd, "requeue", []string{"machine", "time"})
	console.CompleteWith(cmd, "export", []string{"all", "none"})
	_ = cmd.MarkFlagDirname("chdir") // fails only for a flag that does not exist
	for _, name := range []string{"after", "after-any", "after-failed"} {
		console.CompleteFlag(cmd, name, complete(con, living...))
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.fill(cmd, args); err != nil {
			return err
		}
		return o.run(cmd.Context())
	}
	return cmd
}

// fill makes the request from the flags and the arguments.
func (o *submitOptions) fill(cmd *cobra.Command, args []string) error {
	command := args
	if cmd.ArgsLenAtDash() != 0 {
		var err error
		if command, err = o.script(cmd, args); err != nil {
			return err
		}
	}
	if o.Remote() {
		return console.Usage("submit needs the daemon of this machine, because it sends folders, files and variables of this one: leave out --url and BERTH_URL. With a token that is bound to a user, programs submit from elsewhere by POST /api/jobs")
	}
	o.job.Command, o.job.Name, o.job.Compute, o.job.Lease = command, o.launch.Name, o.launch.Compute, o.launch.LeaseRequest
	o.Unnoticed(cmd, args)
	for _, step := range []func() error{o.fillPlace, o.fillTasks, o.fillTimes} {
		if err := step(); err != nil {
			return console.Usage("%v", err)
		}
	}
	switch {
	case o.wait && o.follow:
		return console.Usage("give --wait or --follow, not both: --follow waits too")
	case o.job.DryRun && (o.wait || o.follow):
		return console.Usage("--dry-run submits nothing that --wait or --follow could wait for")
	case o.follow && (o.job.Array != "" || len(o.params) > 0):
		return console.Usage("--follow shows one log, and tasks have one each: use --wait, and berth logs ID.1 -f")
	case o.follow && o.JSON:
		return console.Usage("--follow writes the log, not JSON: use --wait --json")
	}
	return nil
}

// script reads the flags of a file, and returns the command that runs it.
func (o *submitOptions) script(cmd *cobra.Command, args []string) ([]string, error) {
	if args[0] == "-" {
		return nil, console.Usage("a job cannot read standard input: write the script to a file, or give the command after --")
	}
	path, err := filepath.Abs(args[0])
	if err != nil {
		return nil, err
	}
	text, err := o.Read(cmd.Context(), args[0], longestScript+1)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, console.Hinted(console.Usage("there is no file %s", args[0]), "to run a command, write two dashes before it: berth submit -- "+o.unquoted(args))
	case err != nil:
		return nil, err
	}
	for _, line := range ofSlurm(args[0], text) {
		fmt.Fprintln(o.Err, term.Clean(line))
	}
	if err := readFlags(text, cmd.Flags()); err != nil {
		return nil, console.Usage("%s: %v", args[0], err)
	}
	command, err := scriptCommand(path, text, args[1:])
	if err != nil {
		return nil, console.Usage("%v", err)
	}
	return command, nil
}

// fillPlace sets where and with what the command runs.
func (o *submitOptions) fillPlace() (err error) {
	if o.job.Directory, err = filepath.Abs(o.folder); err != nil {
		return err
	}
	if info, err := os.Stat(o.job.Directory); err != nil || !info.IsDir() {
		return fmt.Errorf("--chdir %s: there is no such folder", o.folder)
	}
	umask := syscall.Umask(0)
	syscall.Umask(umask)
	o.job.Umask, o.job.HostMemory = gpu.Some(umask), gpu.MiB(o.host)
	switch o.export {
	case "all":
		o.job.Environment = console.OwnEnviron(o.Environ)
	case "none":
		if len(o.variables) > 0 { // they come on top of what the daemon would give it
			o.job.Environment = slices.DeleteFunc(slices.Clone(o.Environ), func(v string) bool { return !isPlain(v) })
		}
	default:
		return fmt.Errorf("--export takes all or none, not %q; --env NAME passes one variable on", o.export)
	}
	for _, v := range o.variables {
		name, _, set := strings.Cut(v, "=")
		if name == "" {
			return fmt.Errorf("--env takes NAME=VALUE or NAME, not %q", v)
		}
		if !set {
			at := slices.IndexFunc(o.Environ, func(e string) bool { return strings.HasPrefix(e, name+"=") })
			if at < 0 {
				return fmt.Errorf("--env %s: there is no such variable here; give its value, as in --env %s=VALUE", name, name)
			}
			v = o.Environ[at]
		}
		o.job.Environment = append(slices.DeleteFunc(o.job.Environment, func(e string) bool { return strings.HasPrefix(e, name+"=") }), v)
	}
	return nil
}

// isPlain reports whether a variable is one that every job has.
func isPlain(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return slices.Contains([]string{"HOME", "USER", "LOGNAME", "SHELL", "PATH"}, name)
}

// fillTasks sets the parameters.
func (o *submitOptions) fillTasks() error {
	for _, p := range o.params {
		name, values, found := strings.Cut(p, "=")
		if !found || name == "" || values == "" {
			return fmt.Errorf("--param takes a name and its values, as in lr=0.1,0.01, not %q", p)
		}
		if slices.ContainsFunc(o.job.Params, func(q api.JobParam) bool { return q.Name == name }) {
			return fmt.Errorf("--param %s comes twice: give all its values at once, as in %s=1,2", name, name)
		}
		o.job.Params = append(o.job.Params, api.JobParam{Name: name, Values: strings.Split(values, ",")})
	}
	if n, err := strconv.Atoi(o.job.Array); err == nil && n > 1 {
		fmt.Fprintf(o.Err, "berth: --array %s is one task, number %[1]s: for %[1]s tasks write --array 1-%[1]s\n", o.job.Array)
	}
	o.unknownPlaces()
	o.unknownProgram()
	return nil
}

// unknownProgram says that no folder of PATH has the program of the command, because the
// job may wait long before it fails.
func (o *submitOptions) unknownProgram() {
	name := o.job.Command[0]
	if strings.ContainsAny(name, "/{") { // a path, which may come to be there, or a parameter
		return
	}
	if _, err := child.Program(name, child.PathOf(o.job.Environment)); err != nil {
		fmt.Fprintf(o.Err, "berth: the job would fail as it is now: %s\n", term.Clean(err.Error()))
	}
}

// unquoted returns a command as one writes it in a shell, without the quotes around a
// whole command.
func (o *submitOptions) unquoted(command []string) string {
	if child.Quoted(command[0], child.PathOf(o.Environ)) {
		return strings.Join(command, " ")
	}
	return view.ShellLine(command)
}

// placeholder finds what looks like the place of a parameter, and variables of a shell.
var placeholder = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$?\{([A-Za-z_][A-Za-z0-9_]*)\}`) })

// unknownPlaces says which places in the command are those of no parameter, and stay as
// they are.
func (o *submitOptions) unknownPlaces() {
	var names, said []string
	for _, p := range o.job.Params {
		names = append(names, p.Name)
	}
	for _, found := range placeholder().FindAllStringSubmatch(strings.Join(o.job.Command, " "), -1) {
		if names == nil || found[0][0] == '$' || slices.Contains(names, found[1]) || slices.Contains(said, found[1]) {
			continue
		}
		said = append(said, found[1])
		fmt.Fprintf(o.Err, "berth: there is no --param %s, so %s stays as it is: %s\n", found[1], found[0], words.Suggest(found[1], names, "the parameters are "+words.And(names)))
	}
}

// fillTimes sets when the job begins, and the signal before its end.
func (o *submitOptions) fillTimes() error {
	begin, err := console.Ahead(strings.TrimPrefix(o.begin, "now+"), o.Now())
	if err != nil {
		return fmt.Errorf("--begin %w", err)
	}
	if !begin.IsZero() {
		o.job.Begin = &begin
	}
	if o.signal == "" {
		return nil
	}
	name, ahead, timed := strings.Cut(o.signal, "@")
	o.job.Signal = strings.TrimPrefix(strings.ToUpper(name), "SIG")
	if timed {
		var length console.Seconds
		if err := length.Set(ahead); err != nil {
			return fmt.Errorf("--signal takes a signal and how long before the end it comes, as in USR1@60s: %w", err)
		}
		o.job.Warning = length.Opt
	}
	switch _, number := strconv.Atoi(name); {
	case name == "" || number == nil:
		return fmt.Errorf("--signal takes the name of a signal, as in USR1@60s, not %q", o.signal)
	case !o.launch.TimeLimit.Known():
		return errors.New("--signal comes before the end of the time limit: give one with --time, as in --time 4h")
	}
	if ahead := o.job.Warning.Or(60); o.launch.TimeLimit.Or(0) <= ahead {
		fmt.Fprintf(o.Err, "berth: --signal %s comes as soon as the command runs, because --time leaves no more than the %g s before the end\n", o.signal, ahead)
	} else if !timed {
		fmt.Fprintf(o.Err, "berth: --signal %s does not say how long before the end it comes: it comes 60 s before, as with --signal %[1]s@60s\n", o.signal)
	}
	return nil
}

// requeueValue is the flag --requeue.
type requeueValue string

func (v *requeueValue) Set(text string) error {
	if text == "true" { // the flag alone
		text = "machine"
	}
	if text != "machine" && text != "time" {
		return fmt.Errorf("there is no %q: use --requeue or --requeue=time", text)
	}
	*v = requeueValue(text)
	return nil
}

func (v *requeueValue) String() string { return string(*v) }

func (v *requeueValue) Type() string { return "bool" }

func (o *submitOptions) run(ctx context.Context) error {
	o.Endure()
	return o.With(ctx, func(c *client.Client) error {
		for _, list := range []struct {
			names []string
			ids   *[]string
		}{{o.after, &o.job.After}, {o.afterAny, &o.job.AfterAny}, {o.afterBad, &o.job.AfterFailed}} {
			for _, name := range list.names {
				before, err := byName(ctx, c, name, func(id string) (api.Job, error) { return c.Job(ctx, id) })
				if err != nil {
					return err
				}
				*list.ids = append(*list.ids, before.ID)
			}
		}
		job, err := c.Submit(ctx, o.job)
		switch {
		case err != nil:
			return doubtful(err)
		case o.job.DryRun:
			return o.show(ctx, c, job)
		}
		if job.Warning != "" {
			fmt.Fprintf(o.Err, "berth: %s: %s\n", term.Clean(job.ID), term.Clean(job.Warning))
		}
		switch {
		case o.follow:
			fmt.Fprintln(o.Err, "berth: "+term.Clean(job.ID))
			return o.followTo(ctx, c, job)
		case o.wait:
			return o.waitTo(ctx, c, job)
		}
		return o.Answer(job, term.Clean(job.ID))
	})
}

// show says what a job would ask for, and what is in its way now.
func (o *submitOptions) show(ctx context.Context, c *client.Client, job api.Job) error {
	lines := view.JobWould(job, o.Screen())
	if request := o.launch; !o.JSON && request.Finish(o.job.Command) == nil {
		gpus, err := o.Indexes(ctx, c)
		if err != nil {
			return err
		}
		e, err := c.Explain(ctx, request.LeaseRequest)
		if err != nil {
			return err
		}
		lines = append(append(lines, ""), gpus.Explained(e, o.Screen())...)
	}
	return o.Answer(job, lines...)
}

// doubtful adds to an error what to do if nobody knows whether the job was submitted.
func doubtful(err error) error {
	refused, missing := (*api.Problem)(nil), (*client.NoDaemonError)(nil)
	if errors.As(err, &refused) || errors.As(err, &missing) {
		return err
	}
	return console.Hinted(err, "the job may have been submitted: look with berth jobs before you submit it again")
}

// waitTo prints the id of a job, waits for its end and takes its exit code.
func (o *submitOptions) waitTo(ctx context.Context, c *client.Client, job api.Job) error {
	if !o.JSON {
		if err := o.Print(term.Clean(job.ID)); err != nil {
			return err
		}
	}
	ended, err := c.WaitJob(ctx, job.ID)
	if err != nil {
		return runsOn(ctx, job.ID, err)
	}
	if o.JSON {
		err = o.PrintJSON(ended)
	} else {
		_, err = fmt.Fprintln(o.Err, "berth: "+view.JobEnd(ended))
	}
	return errors.Join(err, exitOf(deciding(ctx, c, ended)))
}

// followTo shows the log of a job until its end, and takes its exit code.
func (o *submitOptions) followTo(ctx context.Context, c *client.Client, job api.Job) error {
	if err := (&logReader{Console: o.Console, client: c, follow: true}).read(ctx, job.ID); err != nil {
		return runsOn(ctx, job.ID, err)
	}
	ended, err := c.WaitJob(ctx, job.ID)
	if err != nil {
		return runsOn(ctx, job.ID, err)
	}
	fmt.Fprintln(o.Err, "berth: "+view.JobEnd(ended))
	return exitOf(ended)
}
