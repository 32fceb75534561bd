package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"sync"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/batch"
	"github.com/berth-gpu/berth/internal/batch/outcome"
	"github.com/berth-gpu/berth/internal/batch/record"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/programs"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/process/launch"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

type runOptions struct {
	*console.Console
	inputs        []string
	output        string
	name          string
	expect        int64
	inputFormat   string
	inputEnd      string
	outputFormat  string
	columns       []string
	cost          string
	ordered       bool
	spool         bool
	resume, force bool
	allowFailures bool
	batch         int
	perGPU        int
	workers       int
	headStart     console.Seconds
	gpus          string
	memory        console.Memory
	where         string
	service       string
	isolation     string
	timeout       console.Seconds
	ready         console.Seconds
	tries         int
	command       []string
	hostFlags
	podFlags
}

func newRun(con *console.Console) *cobra.Command {
	o := &runOptions{Console: con}
	cmd := &cobra.Command{
		Use:   "run --input FILE --output FILE [flags] -- COMMAND...",
		Short: "Push records through workers on every GPU",
		Long: `Start COMMAND as a worker on every GPU, each under its own lease, and push the
records of the input through the workers. The output has exactly one outcome for
every record; a record that failed has the field _error. berth restarts workers
that die.

The output appears when it is complete. If a run is stopped or killed, give the
same command again to go on with it. With --output -, berth writes each outcome
as it comes, and keeps none.

With --hosts, workers run on other machines: berth starts "berth work" on each
over your ssh, which must not have to ask for a password. The daemon there
leases. A host that goes is tried again, and its records go to others. With
--kubernetes, they run in the pods of a Job, which ends with the run.`,
		Example: `  berth run --input in.jsonl --output out.jsonl -- python worker.py
  berth run --input 'scans/*.tif' --output out.csv --memory 8GiB -- ./segment
  cat ids.txt | berth run --input - --input-format lines \
    --output out.jsonl.zst --workers-per-gpu 2 -- python worker.py
  berth run --hosts gpu1,gpu2:2,. --files worker.py,model \
    --input in.jsonl --output out.jsonl -- python worker.py
  berth run --kubernetes --image registry.example/worker:1 --workers 8 \
    --memory 20GiB --input in.jsonl --output out.jsonl -- python /worker.py`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); dash > 0 {
				return console.Usage("%q is not a flag: name files with --input FILE and --output FILE, before --", args[0])
			} else if dash < 0 && len(args) > 0 {
				return console.Usage("%q is not a flag: give the worker after --, as in -- python worker.py", args[0])
			}
			o.command = args
			con.Unnoticed(cmd, args)
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringArrayVar(&o.inputs, "input", nil, "read this `FILE` or pattern, also several times;\n-: standard input")
	flags.StringVar(&o.output, "output", "", "write this `FILE`; .csv is CSV, .gz and .zst are\ncompressed; -: standard output, as outcomes come")
	flags.StringVar(&o.inputFormat, "input-format", "", "`FORMAT` of the input: jsonl, csv, lines or files\n(default: by its name)")
	flags.StringVar(&o.inputEnd, "input-end", "", "the line `TEXT` ends standard input, also if\nsomebody keeps it open")
	flags.StringVar(&o.outputFormat, "output-format", "", "`FORMAT` of the output: jsonl or csv (default: by\nits name); for --output - also numbered")
	flags.StringSliceVar(&o.columns, "columns", nil, "`NAMES` of the columns of a CSV\n(default: the fields of the first outcome)")
	flags.BoolVar(&o.ordered, "ordered", false, "write in the order of the input")
	flags.IntVar(&o.batch, "batch", 128, "send at most `N` records at a time")
	flags.IntVar(&o.perGPU, "workers-per-gpu", 1, "start at most `N` workers on each GPU")
	flags.IntVar(&o.workers, "workers", 0, "start at most `N` workers in all\n(default: as many as fit)")
	flags.Var(&o.headStart, "head-start", "the first worker is alone for this `TIME`, and\nothers come if records are left\n(default: BERTH_HEAD_START, none unless set)")
	flags.StringVar(&o.gpus, "gpus", "all", "use at most `N` GPUs")
	flags.Var(&o.memory, "memory", "lease memory of this `SIZE` for each worker, as in\n8GiB (default: none)")
	flags.StringVar(&o.where, "where", "", "use GPUs that meet this `RULE`, as in 'name~H200'")
	flags.StringVar(&o.service, "service", "", "keep to the limits of this `SERVICE`")
	flags.StringVar(&o.isolation, "isolation", "", "keep workers from other GPUs in this `WAY`: env or\ncgroup (default: gpu.isolation, env unless set)")
	flags.StringVar(&o.cost, "cost", "", "this `FIELD` tells what a record costs;\nnone: keep the order (default: its size)")
	flags.Var(&o.timeout, "timeout", "a batch may take this `TIME` (default 300s)")
	flags.Var(&o.ready, "ready-timeout", "a worker may load for this `TIME` (default 300s)")
	flags.IntVar(&o.tries, "tries", 3, "mark a record that broke `N` workers")
	o.hostFlags.add(cmd)
	o.podFlags.add(cmd)
	flags.BoolVar(&o.resume, "resume", true, "go on with an unfinished run")
	flags.BoolVar(&o.force, "force", false, "replace the output, and forget an unfinished run")
	flags.BoolVar(&o.spool, "spool", false, "keep standard input on disk, so that the run\ncan go on")
	flags.StringVar(&o.name, "name", "", "list a batch that writes to standard output, and\nits leases, under this `NAME`")
	flags.Int64Var(&o.expect, "expect", 0, "standard input has about `N` records, for the bars")
	flags.BoolVar(&o.allowFailures, "allow-failures", false, "exit with 0 also if records failed")
	console.CompleteWith(cmd, "isolation", []string{launch.ByEnv, launch.ByCgroup})
	_ = cmd.MarkFlagFilename("input") // these fail only for flags that do not exist
	_ = cmd.MarkFlagFilename("output")
	return cmd
}

func (o *runOptions) run(ctx context.Context) error {
	options, most, err := o.options()
	if err != nil {
		return err
	}
	if o.dryRun {
		return o.podFlags.print(o)
	}
	shown := newRunScreen(ctx, o.Console)
	above := *o.Console
	above.Err = shown // messages about the daemon must not disturb the bars
	options.Notify = shown.notify
	with := programs.BatchOptions{
		Options: options, Command: o.command, Environ: o.Environ, Log: shown, Say: shown.say,
		Request: api.LeaseRequest{Name: o.name, Service: o.service, Memory: gpu.MiB(o.memory), Where: o.where, Isolation: o.isolation},
		PerGPU:  o.perGPU, GPUs: most, Socket: o.Socket,
	}
	var work *programs.Batch
	switch {
	case o.kubernetes:
		var end func()
		if work, end, err = o.podFlags.open(ctx, o, with); err == nil {
			defer end()
		}
	case len(o.hosts) > 0:
		work, err = o.hostFlags.open(ctx, &above, with)
	default:
		above.Endure()
		c, unreachable := above.Daemon(ctx)
		if unreachable != nil {
			return unreachable
		}
		defer c.Close()
		with.Hold = programs.HoldOver(c)
		work, err = programs.OpenBatch(ctx, c, with)
	}
	if err != nil {
		return o.refused(ctx, err)
	}
	summary, err := o.watch(ctx, work, shown)
	return o.conclude(ctx, summary, err)
}

// options returns the options that the command line gives.
func (o *runOptions) options() (batch.Options, int, error) {
	if text := o.Getenv(programs.HeadStart); text != "" && !o.headStart.Known() {
		if err := o.headStart.Set(text); err != nil {
			return batch.Options{}, 0, console.Usage("%s: %v", programs.HeadStart, err)
		}
	}
	options := batch.Options{
		Input:   record.Spec{Paths: o.inputs, Format: record.Format(o.inputFormat)},
		Command: o.command, Spool: o.spool, Output: o.output, Expect: o.expect, Force: o.force, Workers: o.workers,
		Shape:     outcome.Shape{Format: outcome.Format(o.outputFormat), Ordered: o.ordered, Columns: o.columns},
		Batch:     o.batch,
		HeadStart: o.headStart.Duration(), Timeout: o.timeout.Duration(), ReadyTimeout: o.ready.Duration(), Tries: o.tries,
	}
	switch o.cost {
	case "":
	case string(record.ByNothing):
		options.Input.Cost.By = record.ByNothing
	default:
		options.Input.Cost = record.Cost{By: record.ByField, Field: o.cost}
	}
	if len(o.inputs) == 1 && o.inputs[0] == "-" {
		options.Input.Paths, options.Input.Stream, options.Input.End = nil, o.In, o.inputEnd
	}
	if o.piped() {
		options.Pipe, options.Output = o.Out, cmp.Or(o.name, "standard output")
	}
	most := 0
	if o.gpus != "all" {
		var err error
		if most, err = strconv.Atoi(o.gpus); err != nil || most < 1 {
			return options, 0, console.Usage("--gpus must be a number or all, not %q", o.gpus)
		}
	}
	return options, most, o.check()
}

// piped reports whether outcomes go to standard output.
func (o *runOptions) piped() bool { return o.output == "-" }

// check refuses options that cannot be meant, before anything is asked for.
func (o *runOptions) check() error {
	switch {
	case len(o.inputs) == 0:
		return console.Usage("--input is missing: give --input FILE, or --input - for standard input")
	case len(o.inputs) > 1 && slices.Contains(o.inputs, "-"):
		return console.Usage("--input - is standard input, and cannot be read beside others: put it together before, as in cat FILE - | berth run --input -")
	case o.output == "":
		return console.Usage("--output is missing: give --output FILE")
	case len(o.command) == 0:
		return console.Usage("the worker is missing: give its command at the end, as in -- python worker.py")
	case !slices.Contains([]string{"", launch.ByEnv, launch.ByCgroup}, o.isolation):
		return console.Usage("--isolation must be env or cgroup, not %q", o.isolation)
	case o.batch < 1:
		return console.Usage("--batch must be 1 or more, not %d", o.batch)
	case o.perGPU < 1:
		return console.Usage("--workers-per-gpu must be 1 or more, not %d", o.perGPU)
	case o.workers < 0:
		return console.Usage("--workers must be 1 or more, not %d", o.workers)
	case o.timeout.Known() && o.timeout.Or(0) == 0:
		return console.Usage("--timeout must be above 0")
	case o.ready.Known() && o.ready.Or(0) == 0:
		return console.Usage("--ready-timeout must be above 0")
	case o.tries < 1:
		return console.Usage("--tries must be 1 or more, not %d", o.tries)
	case o.expect < 0:
		return console.Usage("--expect must be 0 or more, not %d", o.expect)
	case o.name != "" && !o.piped():
		return console.Usage("--name needs --output -: a batch with a file is listed by its file")
	case o.inputEnd != "" && (o.spool || !slices.Equal(o.inputs, []string{"-"})):
		return console.Usage("--input-end needs --input -, without --spool")
	case o.spool && o.piped():
		return console.Usage("--spool needs an output file: a run that writes to standard output cannot be resumed")
	case o.spool && !slices.Equal(o.inputs, []string{"-"}):
		return console.Usage("--spool needs --input -: berth can read files again anyway")
	case o.Remote() && len(o.hosts) == 0 && !o.kubernetes:
		return console.Usage("run needs the daemon of this machine, over its socket: workers are processes here")
	}
	if err := cmp.Or(o.podFlags.check(o), o.hostFlags.check(o.kubernetes)); err != nil || o.piped() {
		return err
	}
	if _, err := os.Stat(outcome.Dir(o.output)); !o.resume && !o.force && !errors.Is(err, fs.ErrNotExist) {
		return console.Usage("%s holds an unfinished run: go on with it (--resume), or forget it (--force)", outcome.Dir(o.output))
	}
	return nil
}

// refused adds the next step to an error of the engine.
func (o *runOptions) refused(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w (%w)", err, context.Cause(ctx))
	case errors.Is(err, record.ErrFormat):
		return console.Usage("%v: say it with --input-format jsonl, csv, lines or files", err)
	case errors.Is(err, outcome.ErrShape), errors.Is(err, batch.ErrOwnInput):
		return console.Usage("%v", err)
	case errors.Is(err, outcome.ErrExists):
		return console.Hinted(err, "to replace it: the same command with --force")
	case errors.Is(err, outcome.ErrChanged), errors.Is(err, outcome.ErrGone):
		return console.Hinted(err, "to forget the unfinished run and begin again: the same command with --force")
	}
	return err
}

// watch runs a batch, and shows its progress.
func (o *runOptions) watch(ctx context.Context, work *programs.Batch, shown *runScreen) (batch.Summary, error) {
	beside, stop := context.WithCancel(context.WithoutCancel(ctx))
	var showing sync.WaitGroup
	showing.Go(func() { shown.follow(beside, work) })
	defer showing.Wait()
	defer stop()
	return work.Work(ctx)
}

// troubles returns what was wrong with GPUs that workers left.
func troubles(s batch.Summary, width int) (lines []string) {
	for _, g := range s.GPUs {
		if g.Trouble != "" {
			lines = append(lines, term.Wrap(fmt.Sprintf("Workers left %s, which %s.", g.GPU, term.Clean(g.Trouble)), max(width, 20))...)
		}
	}
	return lines
}

// conclude sums up the batch and decides how the command ends.
func (o *runOptions) conclude(ctx context.Context, s batch.Summary, err error) error {
	var shownErr error
	if o.piped() { // Out has the outcomes
		o.Out, o.Terminal = o.Err, o.ErrTerminal
	}
	switch {
	case o.JSON:
		shownErr = o.PrintJSON(s)
	case err == nil || len(s.GPUs) > 0: // otherwise nothing has happened
		lines := view.BatchSummary(programs.Ended(s), s.Took(), o.Screen())
		shownErr = o.Print(append(lines, troubles(s, o.Screen().Width)...)...)
	}
	switch {
	case errors.Is(err, batch.ErrStopped) && ctx.Err() != nil:
		return fmt.Errorf("%w (%w)", err, context.Cause(ctx))
	case err != nil:
		return err
	case shownErr != nil:
		return shownErr
	case s.Failed > 0 && !o.allowFailures:
		if o.piped() {
			return fmt.Errorf("%s failed", words.CountThousands(s.Failed, "record"))
		}
		where := words.Form(s.Failed, "it is in %s, with its %s", "they are in %s, each with its %s") + "; --allow-failures accepts that"
		return console.Hinted(fmt.Errorf("%s failed", words.CountThousands(s.Failed, "record")), fmt.Sprintf(where, o.output, outcome.ErrorKey))
	}
	return nil
}
