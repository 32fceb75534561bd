package work

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/batch/pipeline"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/programs"
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
	s := &starter{planOptions: o, client: c, plan: plan, commands: commands, progress: newProgress(o.Console, c, plan, gpus)}
	return s.run(ctx)
}

// starter runs a plan.
type starter struct {
	*planOptions
	client   *client.Client
	plan     api.Plan
	commands map[string]programs.Command
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
