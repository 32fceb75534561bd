package programs

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/batch/pipeline"
	"github.com/berth-gpu/berth/internal/process/child"
	"github.com/berth-gpu/berth/internal/process/launch"
)

const (
	// stopGrace is how long a run may take to end by itself when all runs stop.
	stopGrace = 10 * time.Second
	// daemonTries is how often a run asks again for its lease, a second apart, if the
	// daemon does not answer, or says that it cannot now.
	daemonTries = 60
)

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
	Show     Show
}

// Show shows the runs of a plan to the user.
type Show interface {
	// Output returns the writers for the output of a run. RunPlan calls done when the
	// run has ended.
	Output(run string) (stdout, stderr io.Writer, done func())
	// Started and Ended are called for every run, one at a time. Ended is also called
	// for a run that never started.
	Started(Result)
	Ended(Result)
	// Waits is called when a run asks for the lease with this id, and done when the
	// lease is granted or refused.
	Waits(ctx context.Context, run, id string) (done func())
	// Say shows a line to the user.
	Say(format string, args ...any)
}

// Command is the program of a pipeline.
type Command struct {
	Path string
	Args []string // the first is its own name
}

// RunPlan starts the runs of a plan, each as a separate process under a separate lease,
// and waits for all of them. When ctx ends, it starts no more runs, asks those that run
// to stop, and kills them after a while. The results are in the order of the plan.
func RunPlan(ctx context.Context, c *client.Client, o PlanOptions) ([]Result, error) {
	file, err := newPlanFile(o.Plan)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	s := &planStarter{PlanOptions: o, daemon: c, file: file}
	return doRuns(ctx, runOptions{
		Plan: o.Plan, Self: o.Self, Grace: stopGrace, CPUs: o.CPUs,
		Order: s.order, Input: o.Input, Show: o.Show, Lease: s.lease, Again: s.again,
	}), nil
}

// planStarter decides which leases the runs of a plan ask for, and which commands they
// become.
type planStarter struct {
	PlanOptions
	daemon *client.Client
	file   *os.File // the plan, for the runs
}

// lease takes the lease of one run and binds it to its process. The daemon needs only
// the part of the plan about that run.
func (s *planStarter) lease(ctx context.Context, p *api.PlannedPipeline, run api.PlannedRun, pid int) (api.RunningRun, error) {
	only := *p
	only.Steps, only.Runs = nil, []api.PlannedRun{run}
	id := strings.TrimSpace(run.Name) + "-" + strings.ToLower(rand.Text()[:8])
	defer s.Show.Waits(ctx, run.Name, id)()
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

// again waits for a daemon that does not answer, or not now: it may be restarting, which
// stops no run.
func (s *planStarter) again(ctx context.Context, tries int, err error) bool {
	if isRefusal(err) || tries > daemonTries {
		return false
	}
	if tries == 1 {
		s.Show.Say("the daemon has no answer now (%v); asking again", err)
	}
	select {
	case <-time.After(time.Second):
		return true
	case <-ctx.Done():
		return false
	}
}

// order returns the order for a run: its command, in the environment of this process,
// with the variables that keep it to its lease and name the run.
func (s *planStarter) order(run api.PlannedRun, placed api.RunningRun) runOrder {
	command := s.Commands[placed.Pipeline]
	o := runOrder{Path: command.Path, Args: command.Args, Plan: pathOf(s.file.Fd())}
	env := replaced(s.Environ, "BERTH_PIPELINE="+placed.Pipeline, "BERTH_RUN="+run.Name, "BERTH_PLAN")
	if placed.Lease == nil {
		// The run needs no GPU and sees none, and it has no lease either.
		o.Env = replaced(env, "CUDA_VISIBLE_DEVICES=", "ROCR_VISIBLE_DEVICES=", "BERTH_LEASE", "BERTH_FENCE", "BERTH_GPUS", "BERTH_MEMORY_MB", "BERTH_CONTEXT_MB")
		return o
	}
	about := placed.Lease.Launch
	ladder := launch.Ladder{Context: about.Context, MPS: about.MPS, Torch: s.torch(o.Path), Socket: s.Socket, Isolation: about.Isolation}
	o.Env, _ = launch.Environment(*placed.Lease, about.Devices, ladder, env)
	return o
}

// torch returns the version of PyTorch that a run would find: the one that the
// interpreter reported, or the one in the folders around the program.
func (s *planStarter) torch(program string) string {
	for i := range s.Plan.Pipelines {
		for _, step := range s.Plan.Pipelines[i].Steps {
			for _, l := range step.Libraries {
				if l.Name == "torch" && l.Version != "" {
					return l.Version
				}
			}
		}
	}
	return child.Torch(program, s.Environ)
}

// replaced returns an environment in which entries replace those of the same name. An
// entry without a value only removes the other.
func replaced(env []string, entries ...string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(old string) bool {
		name, _, _ := strings.Cut(old, "=")
		return slices.ContainsFunc(entries, func(entry string) bool { return entry == name || strings.HasPrefix(entry, name+"=") })
	})
	for _, entry := range entries {
		if strings.Contains(entry, "=") {
			env = append(env, entry)
		}
	}
	return env
}

// PlanReport is the report of a plan and its runs, for programs.
type PlanReport struct {
	Plan api.Plan    `json:"plan"`
	Runs []RunReport `json:"runs"`
}

// RunReport is the report of one run of a plan.
type RunReport struct {
	api.RunningRun
	PID     int     `json:"pid,omitempty"`
	Status  int     `json:"exit_status"`
	Seconds float64 `json:"seconds"`
	Error   string  `json:"error,omitempty"`
}

// Report returns the report of a plan after its runs.
func Report(plan api.Plan, results []Result) PlanReport {
	report := PlanReport{Plan: plan, Runs: []RunReport{}}
	for _, r := range results {
		one := RunReport{RunningRun: r.RunningRun, PID: r.PID, Status: r.Status, Seconds: r.Took.Seconds()}
		if r.Err != nil {
			one.Error = r.Err.Error()
		}
		report.Runs = append(report.Runs, one)
	}
	return report
}

// NoCommandError means that neither the file nor the caller has a command for a
// pipeline.
type NoCommandError struct{ Pipeline string }

func (e *NoCommandError) Error() string {
	return fmt.Sprintf("pipeline %q has no command: add command: to the file, or give one after --run --", e.Pipeline)
}

// Commands returns the command of every pipeline of a file, by the name of the
// pipeline: given, or the command in the file if given is empty. It finds programs in
// path, which is a list of folders as in PATH.
func Commands(file *pipeline.File, given []string, path string) (map[string]Command, error) {
	all := map[string]Command{}
	for i := range file.Pipelines {
		p := &file.Pipelines[i]
		args := given
		if len(args) == 0 {
			args = p.Command
		}
		if len(args) == 0 {
			return nil, &NoCommandError{p.Name}
		}
		program, err := child.Program(args[0], path)
		if err != nil {
			return nil, fmt.Errorf("pipeline %q: %w", p.Name, err)
		}
		all[p.Name] = Command{Path: program, Args: args}
	}
	return all, nil
}

// newPlanFile returns a file that holds a plan as JSON, for the runs of the plan.
// It is in memory and has no name: it lasts as long as a process has it open, so
// a process that is killed leaves nothing behind. Nobody can change it.
func newPlanFile(plan api.Plan) (*os.File, error) {
	fd, err := unix.MemfdCreate("berth-plan", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("write the plan for the runs: %w", err)
	}
	f := os.NewFile(uintptr(fd), "berth-plan")
	if err = json.NewEncoder(f).Encode(plan); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write the plan for the runs: %w", err), f.Close())
	}
	return f, nil
}

// pathOf returns the path at which children find a file that this process has open.
func pathOf(fd uintptr) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd) }

// planNumber is the lowest file descriptor for the plan in a run: above those that
// programs and scripts choose for their own files.
const planNumber = 60

// takePlan opens the plan for this process and the command it becomes. The path
// contains the process id, so that processes that the command starts can read the plan
// too.
func (o *runOrder) takePlan() error {
	if o.Plan == "" {
		return nil
	}
	fd, err := unix.Open(o.Plan, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return ErrNoOrder
	}
	if err == nil {
		fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD, planNumber) // the other descriptor is closed on exec
	}
	if err != nil {
		return fmt.Errorf("open the plan %s: %w", o.Plan, err)
	}
	o.Env = append(o.Env, "BERTH_PLAN="+pathOf(uintptr(fd)))
	return nil
}
