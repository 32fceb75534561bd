package programs

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

const (
	// stopGrace is how long a run may take to end by itself when all runs stop.
	stopGrace = 10 * time.Second
	// daemonTries is how often a run asks again for its lease, a second apart, if the
	// daemon does not answer.
	daemonTries = 60
)

// PlanDaemon grants the leases of a plan. A client is a PlanDaemon.
type PlanDaemon interface {
	RunPlan(ctx context.Context, r api.PlanRun) (api.PlanRunning, error)
}

// PlanOptions are the options of RunPlan.
type PlanOptions struct {
	Plan     api.Plan
	Commands map[string]Command // by pipeline
	Self     []string           // the command line that makes this program call Obey
	Environ  []string           // of every run; its lease adds to it
	Socket   string             // of the daemon; empty for where runs look anyway
	Timeout  gpu.Opt[float64]   // seconds that a run waits for room; absent for no limit
	CPUs     int                // runs without a GPU that are under way at a time
	Input    *os.File           // for a single run; nil if it reads nothing

	// Output returns the writers for the output of a run. RunPlan calls done when the
	// run has ended.
	Output func(run string) (stdout, stderr io.Writer, done func())
	// RunPlan calls Started and Ended for every run, one at a time. It also calls Ended
	// for a run that never started.
	Started, Ended func(Result)
	// RunPlan calls Waits when a run asks for the lease with this id, and done when the
	// lease is granted or refused.
	Waits func(ctx context.Context, run, id string) (done func())
	// Say shows a line to the user.
	Say func(format string, args ...any)
}

// Command is the program of a pipeline.
type Command struct {
	Path string
	Args []string // the first is its own name
}

// RunPlan starts the runs of a plan, each as a separate process under a separate lease,
// and waits for all of them. When ctx ends, it starts no more runs, asks those that run
// to stop, and kills them after a while. The results are in the order of the plan.
func RunPlan(ctx context.Context, d PlanDaemon, o PlanOptions) ([]Result, error) {
	file, err := newPlanFile(o.Plan)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	s := &planStarter{PlanOptions: o, daemon: d, file: file}
	return doRuns(ctx, runOptions{
		Plan: o.Plan, Self: o.Self, Grace: stopGrace, CPUs: o.CPUs,
		Order: s.order, Input: o.Input, Output: o.Output, Lease: s.lease, Again: s.again,
		Started: o.Started, Ended: o.Ended,
	}), nil
}

// planStarter decides which leases the runs of a plan ask for, and which commands they
// become.
type planStarter struct {
	PlanOptions
	daemon PlanDaemon
	file   *os.File // the plan, for the runs
}

// lease takes the lease of one run and binds it to its process. The daemon needs only
// the part of the plan about that run.
func (s *planStarter) lease(ctx context.Context, p *api.PlannedPipeline, run api.PlannedRun, pid int) (api.RunningRun, error) {
	only := *p
	only.Steps, only.Runs = nil, []api.PlannedRun{run}
	id := strings.TrimSpace(run.Name) + "-" + strings.ToLower(rand.Text()[:8])
	defer s.Waits(ctx, run.Name, id)()
	answer, err := s.daemon.RunPlan(ctx, api.PlanRun{
		Plan: &api.Plan{Pipelines: []api.PlannedPipeline{only}}, ID: id, PID: pid, Enforce: "auto",
		Timeout: gpu.Some(s.Timeout.Or(longestWait.Seconds())),
	})
	if err != nil {
		return api.RunningRun{}, err
	}
	if len(answer.Runs) != 1 || answer.Runs[0].Lease == nil || answer.Runs[0].Lease.Launch == nil {
		return api.RunningRun{}, &api.Problem{Detail: "The daemon has another version than this command and does not send what the run needs: restart the daemon."}
	}
	return answer.Runs[0], nil
}

// again waits for a daemon that does not answer: it may be restarting, which stops no
// run.
func (s *planStarter) again(ctx context.Context, tries int, err error) bool {
	if refusal := (*api.Problem)(nil); errors.As(err, &refusal) && refusal.Code != "stopping" {
		return false
	}
	if tries > daemonTries {
		return false
	}
	if tries == 1 {
		s.Say("the daemon does not answer (%v); waiting for it to come back", err)
	}
	select {
	case <-time.After(time.Second):
		return true
	case <-ctx.Done():
		return false
	}
}
