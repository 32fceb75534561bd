package work

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/batch/pipeline"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/programs"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// runFile plans a file and runs it. It finds all errors in the command line before it
// asks for anything.
func (o *planOptions) runFile(ctx context.Context, file *pipeline.File, text []byte) error {
	commands, err := programs.Commands(file, o.command, o.Getenv("PATH"))
	if missing := (*programs.NoCommandError)(nil); errors.As(err, &missing) {
		return console.Usage("%v", err)
	}
	if err != nil {
		return err
	}
	if o.Remote() {
		return console.Usage("--run needs the daemon of this machine, over its socket: runs are processes here")
	}
	o.Endure()
	c, err := o.Daemon(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	plan, err := o.compile(ctx, c, file, text)
	if err != nil {
		return err
	}
	gpus, err := o.Indexes(ctx, c)
	if err != nil {
		return err
	}
	folder, err := o.openFolder()
	if err != nil {
		return err
	}
	defer folder.close()
	if o.failed && folder.left(&plan) == 0 {
		_, err := fmt.Fprintf(o.Err, "berth: every run of %s ended well the last time; without --failed, all are run again\n", o.path)
		return err
	}
	if err := folder.begin(o.failed); err != nil {
		return fmt.Errorf("keep which runs end well: %w", err)
	}
	s := &starter{planOptions: o, client: c, plan: plan, commands: commands, folder: folder, progress: newProgress(ctx, o.Console, c, plan, gpus)}
	s.progress.folder = folder
	return s.run(ctx)
}

// openFolder opens the folder that keeps logs and outcomes. Where none can be, the runs
// go on without, unless it is needed.
func (o *planOptions) openFolder() (*runFolder, error) {
	if o.path == "-" {
		return nil, nil
	}
	folder, err := openRunFolder(o.path)
	switch {
	case err == nil:
		return folder, nil
	case errors.Is(err, errUnderWay):
		return nil, fmt.Errorf("%s: %w", o.path, err)
	case o.failed:
		return nil, fmt.Errorf("--failed needs what the last time left: %w", err)
	}
	_, err = fmt.Fprintf(o.Err, "berth: no logs are kept, and --failed will not work: %v\n", err)
	return nil, err
}

// starter runs a plan.
type starter struct {
	*planOptions
	client   *client.Client
	plan     api.Plan
	commands map[string]programs.Command
	folder   *runFolder // nil if nothing is kept
	progress *progress
}

func (s *starter) run(ctx context.Context) error {
	s.progress.begin()
	results, err := programs.RunPlan(ctx, s.client, programs.PlanOptions{
		Plan: s.plan, Commands: s.commands, Self: []string{"berth", becomeCommand}, Environ: s.Environ, Socket: s.Socket,
		Timeout: s.timeout.Opt, CPUs: s.CPUs, Input: s.input(), Show: s.progress,
	})
	if err != nil {
		return err
	}
	s.progress.end(results)
	s.nameFailed(results)
	if s.JSON {
		if err := s.PrintJSON(programs.Report(s.plan, results)); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("the runs were stopped: %w", context.Cause(ctx))
	}
	for _, r := range results {
		if r.Err != nil {
			return failure(r.Err, len(results) == 1)
		}
	}
	return nil
}

// nameFailed says which of several runs failed, where their logs are, and how to run them
// again.
func (s *starter) nameFailed(results []programs.Result) {
	failed := 0
	for _, r := range results {
		if r.Err == nil || len(results) == 1 {
			continue
		}
		if failed++; errors.Is(r.Err, programs.ErrStopped) {
			continue // whoever stopped the plan knows
		}
		where := ""
		if path := s.folder.log(r.Name); path != "" {
			where = " (" + path + ")"
		}
		s.progress.Say("failed: %s: %v%s", term.Clean(r.Name), r.Err, where)
	}
	if failed > 0 && s.folder != nil {
		s.progress.Say("to run them again: berth plan %s --run --failed%s", words.Shell(s.path), s.suffix())
	}
}

// suffix returns the command of the command line, as it is typed.
func (s *starter) suffix() string {
	flags := ""
	if s.noProbe {
		flags = " --no-probe"
	}
	if len(s.command) == 0 {
		return flags
	}
	typed := make([]string, len(s.command))
	for i, word := range s.command {
		typed[i] = words.Shell(word)
	}
	return flags + " -- " + strings.Join(typed, " ")
}

// failure returns the error of the command after a failed run, which progress has
// already reported. A single run has the terminal, so an interrupt is meant for the run
// and for berth.
func failure(err error, alone bool) error {
	killed := (*programs.KilledError)(nil)
	if alone && errors.As(err, &killed) && (killed.Signal == syscall.SIGINT || killed.Signal == syscall.SIGQUIT) {
		return fmt.Errorf("%w: %w", console.ErrReported, &console.SignalError{Signal: killed.Signal})
	}
	return console.ErrReported
}

// input returns the standard input of a single run: that of berth, unless berth
// has read the pipelines from it.
func (s *starter) input() *os.File {
	in, _ := s.In.(*os.File)
	if s.path == "-" {
		return nil
	}
	return in
}
