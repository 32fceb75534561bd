package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/child"
	"github.com/berth-gpu/berth/internal/pipeline"
	"github.com/berth-gpu/berth/internal/runner"
)

const (
	// stopGrace is what a run gets to end by itself when all are stopped.
	stopGrace = 10 * time.Second
	// longestWait is as long as the daemon lets anybody wait.
	longestWait = 30 * 24 * time.Hour
	// daemonTries is how often a lease is asked for again, a second apart, when
	// the daemon does not answer.
	daemonTries = 60
)

// runFile plans a file and runs it. Everything that can be wrong with the
// command line is found out before anything is asked for.
func (o *planOptions) runFile(ctx context.Context, file *pipeline.File, text []byte) error {
	commands, err := o.commands(file)
	if err != nil {
		return err
	}
	if o.remote() {
		return usage("--run needs the daemon of this machine, over its socket: runs are processes here")
	}
	c, err := o.daemon(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	plan, err := o.compile(ctx, c, file, text)
	if err != nil {
		return err
	}
	gpus, err := o.indexes(ctx, c)
	if err != nil {
		return err
	}
	s := &starter{planOptions: o, client: c, plan: plan, commands: commands, progress: newProgress(o.app, plan, gpus)}
	return s.run(ctx)
}

// remote reports whether the daemon is reached in a way on which it cannot see
// processes of this machine.
func (a *app) remote() bool {
	return a.url != "" || a.socket == "" && a.Getenv("BERTH_SOCKET") == "" && a.Getenv("BERTH_URL") != ""
}

// commands is what every pipeline becomes, but for its environment.
func (o *planOptions) commands(file *pipeline.File) (map[string]runner.Order, error) {
	all := map[string]runner.Order{}
	for i := range file.Pipelines {
		p := &file.Pipelines[i]
		words := o.command
		if len(words) == 0 {
			words = p.Command
		}
		if len(words) == 0 {
			return nil, usage("pipeline %q has no command: add command: to the file, or give one after --run --", p.Name)
		}
		path, err := child.Program(words[0], o.Getenv("PATH"))
		if err != nil {
			return nil, fmt.Errorf("pipeline %q: %w", p.Name, err)
		}
		all[p.Name] = runner.Order{Path: path, Args: words}
	}
	return all, nil
}

// starter runs a plan.
type starter struct {
	*planOptions
	client   *client.Client
	plan     api.Plan
	planFile runner.PlanFile // for whoever is started
	commands map[string]runner.Order
	progress *progress
}

func (s *starter) run(ctx context.Context) (err error) {
	if s.planFile, err = runner.NewPlanFile(s.plan); err != nil {
		return err
	}
	defer s.planFile.Close()
	s.progress.begin()
	results := runner.Run(ctx, runner.Options{
		Plan: s.plan, Self: []string{"berth", becomeCommand}, Grace: stopGrace, CPUs: s.CPUs,
		Order: s.order, Input: s.input(), Output: s.progress.output, Lease: s.lease, Again: s.again,
		Started: s.progress.started, Ended: s.progress.ended,
	})
	s.progress.end(results)
	if s.json {
		if err := s.printJSON(runReport(s.plan, results)); err != nil {
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

// failure is what a failed run, which has been told of, makes of the command. One
// that is alone has the terminal, so its interrupt was meant for both.
func failure(err error, alone bool) error {
	killed := (*runner.KilledError)(nil)
	if alone && errors.As(err, &killed) && (killed.Signal == syscall.SIGINT || killed.Signal == syscall.SIGQUIT) {
		return fmt.Errorf("%w: %w", errReported, &SignalError{killed.Signal})
	}
	return errReported
}

// input is what a run reads that is alone: our own standard input, unless that
// was the file with the pipelines.
func (s *starter) input() *os.File {
	in, _ := s.In.(*os.File)
	if s.path == "-" {
		return nil
	}
	return in
}

// lease takes the lease of one run, bound to its process. The daemon needs no
// more of the plan than what is about that run.
func (s *starter) lease(ctx context.Context, p *api.PlannedPipeline, run api.PlannedRun, pid int) (api.RunningRun, error) {
	only := *p
	only.Steps, only.Runs = nil, []api.PlannedRun{run}
	id := strings.TrimSpace(run.Name) + "-" + strings.ToLower(rand.Text()[:8])
	defer s.progress.waits(ctx, s.client, run.Name, id)()
	answer, err := s.client.RunPlan(ctx, api.PlanRun{
		Plan: &api.Plan{Pipelines: []api.PlannedPipeline{only}}, ID: id, PID: pid, Enforce: "auto",
		Timeout: gpu.Some(s.timeout.Or(longestWait.Seconds())),
	})
	if err != nil {
		return api.RunningRun{}, err
	}
	if len(answer.Runs) != 1 || answer.Runs[0].Lease == nil || answer.Runs[0].Lease.Launch == nil {
		return api.RunningRun{}, &api.Problem{Detail: "The daemon is of another version than this command, and does not say what the run needs: restart it."}
	}
	return answer.Runs[0], nil
}

// again waits a while for a daemon that does not answer: it may be restarted
// under us, and that stops nobody.
func (s *starter) again(ctx context.Context, tries int, err error) bool {
	if refusal := (*api.Problem)(nil); errors.As(err, &refusal) && refusal.Code != "stopping" {
		return false
	}
	if tries > daemonTries {
		return false
	}
	if tries == 1 {
		s.progress.say("the daemon does not answer (%v); waiting for it to come back", err)
	}
	select {
	case <-time.After(time.Second):
		return true
	case <-ctx.Done():
		return false
	}
}

// ran is a run as JSON has it.
type ran struct {
	api.RunningRun
	PID     int     `json:"pid,omitempty"`
	Status  int     `json:"exit_status"`
	Seconds float64 `json:"seconds"`
	Error   string  `json:"error,omitempty"`
}

type ranPlan struct {
	Plan api.Plan `json:"plan"`
	Runs []ran    `json:"runs"`
}

func runReport(plan api.Plan, results []runner.Result) ranPlan {
	report := ranPlan{Plan: plan, Runs: []ran{}}
	for _, r := range results {
		one := ran{RunningRun: r.RunningRun, PID: r.PID, Status: r.Status, Seconds: r.Took.Seconds()}
		if r.Err != nil {
			one.Error = r.Err.Error()
		}
		report.Runs = append(report.Runs, one)
	}
	return report
}
