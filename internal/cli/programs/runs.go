package programs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/process/child"
)

// runOptions are the options of doRuns.
type runOptions struct {
	Plan api.Plan

	// Self is the command line that makes this program call Obey.
	Self []string
	// Order returns the order for a run, once its place is known.
	Order func(run api.PlannedRun, placed api.RunningRun) runOrder
	// Show shows the runs to the user.
	Show Show
	// Input is the standard input of a single run. Several runs read nothing.
	Input *os.File

	// Lease takes the lease for a run and binds it to a process. It may wait
	// indefinitely. Several calls may wait at the same time.
	Lease func(ctx context.Context, pipeline *api.PlannedPipeline, run api.PlannedRun, pid int) (api.RunningRun, error)
	// Again waits, and reports whether to ask again for a lease after tries failures.
	// After an error nobody knows whether the daemon granted the lease; the process of
	// that lease is gone by then, and the lease with it.
	Again func(ctx context.Context, tries int, err error) bool

	CPUs  int           // limit of concurrent runs without a GPU; at least one
	Grace time.Duration // time from the request to stop until the kill
}

// Result is the outcome of a run.
type Result struct {
	api.RunningRun
	PID    int
	Begun  time.Time // zero if it never started
	Took   time.Duration
	Status int   // exit status; -1 if it was killed or never started
	Err    error // nil on success; ErrStopped if it was stopped or not started
}

// ErrStopped is the error of a run that was stopped before its end.
var ErrStopped = errors.New("it was stopped")

// KilledError is the error of a run that a signal ended.
type KilledError struct{ Signal syscall.Signal }

func (e *KilledError) Error() string { return "killed by " + unix.SignalName(e.Signal) }

// doRuns starts every run of the plan, as many side by side as leases are granted, and
// waits for all of them. When ctx ends, it starts no more runs, asks those that run to
// stop, and then kills them. The results are in the order of the plan.
func doRuns(ctx context.Context, o runOptions) []Result {
	r := &planRuns{runOptions: o, results: map[string]Result{}}
	r.change.L = &r.mu
	var order []string
	var onGPUs, without []*task
	groups := map[need]*group{}
	for i := range o.Plan.Pipelines {
		p := &o.Plan.Pipelines[i]
		for _, run := range p.Runs {
			t := &task{pipeline: p, run: run}
			order = append(order, run.Name)
			if p.Memory == 0 && p.Slots == 0 {
				without = append(without, t)
				continue
			}
			need := needOf(p, run)
			if groups[need] == nil {
				groups[need] = &group{}
			}
			t.group = groups[need]
			onGPUs = append(onGPUs, t)
		}
	}
	if len(order) > 1 {
		r.Input = nil
	}
	slices.SortStableFunc(onGPUs, func(a, b *task) int { return a.run.Wave - b.run.Wave })
	var all sync.WaitGroup
	all.Go(func() { r.onGPUs(ctx, onGPUs) })
	all.Go(func() { r.onCPUs(ctx, without) })
	all.Wait()
	results := make([]Result, len(order))
	for i, name := range order {
		results[i] = r.results[name]
	}
	return results
}

// planRuns keeps track of the runs of a plan while they are under way.
type planRuns struct {
	runOptions

	mu      sync.Mutex // guards what follows, and is held while Show is told of a start and of an end
	results map[string]Result
	running []*Result // on GPUs
	asking  []*task   // waiting for their lease
	change  sync.Cond // a lease was decided, a run has ended, or all should stop
}

// onCPUs runs the tasks that need no GPU.
func (r *planRuns) onCPUs(ctx context.Context, tasks []*task) {
	var under sync.WaitGroup
	lane := make(chan struct{}, max(r.CPUs, 1))
	for _, t := range tasks {
		lane <- struct{}{}
		under.Go(func() {
			defer func() { <-lane }()
			r.do(ctx, t, func(int) (api.RunningRun, error) {
				return api.RunningRun{Name: t.run.Name, Pipeline: t.pipeline.Name, Placement: api.PlacedNowhere}, nil
			}, func() {})
		})
	}
	under.Wait()
}

// onGPUs asks for one lease after the other and runs the task of each. A lease that has
// to wait does not delay the others.
func (r *planRuns) onGPUs(ctx context.Context, tasks []*task) {
	wake := context.AfterFunc(ctx, r.changed)
	defer wake()
	var under sync.WaitGroup
	for len(tasks) > 0 {
		at := r.await(ctx, tasks)
		t := tasks[at]
		tasks = slices.Delete(tasks, at, at+1)
		under.Go(func() {
			lease := func(pid int) (api.RunningRun, error) { return r.Lease(ctx, t.pipeline, t.run, pid) }
			r.do(ctx, t, lease, sync.OnceFunc(func() { r.decided(t) }))
		})
	}
	under.Wait()
}

// await waits until one of the tasks may ask, counts it as asking, and returns
// its index.
func (r *planRuns) await(ctx context.Context, tasks []*task) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		at := r.next(tasks)
		if ctx.Err() != nil {
			at = 0
		}
		if at >= 0 {
			tasks[at].group.asking++
			r.asking = append(r.asking, tasks[at])
			return at
		}
		r.change.Wait()
	}
}

// decided records that a task has its lease, or will not get one.
func (r *planRuns) decided(t *task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.group.asking--
	r.asking = slices.DeleteFunc(r.asking, func(other *task) bool { return other == t })
	r.change.Broadcast()
}

func (r *planRuns) changed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.change.Broadcast()
}

// device returns the UUID of the device that a run is on.
func device(r *Result) string {
	if r.Lease == nil || len(r.Lease.Parts) == 0 {
		return ""
	}
	return r.Lease.Parts[0].GPU
}

// do performs one run from beginning to end. It calls decided as soon as the run has
// its lease, or will not get one.
func (r *planRuns) do(ctx context.Context, t *task, lease func(pid int) (api.RunningRun, error), decided func()) {
	defer decided()
	result := &Result{RunningRun: api.RunningRun{Name: t.run.Name, Pipeline: t.pipeline.Name, Placement: api.PlaceRefused, Planned: t.run.GPU}, Status: -1}
	if ctx.Err() != nil { // the output of an earlier run stays
		result.Err = ErrStopped
		r.ended(result)
		return
	}
	stdout, stderr, done := r.Show.Output(t.run.Name)
	var p *runProcess
	for tries := 1; p == nil; tries++ {
		if ctx.Err() != nil {
			result.Err = ErrStopped
			break
		}
		p, result.Err = r.begin(t, result, stdout, stderr, lease)
		if result.Err != nil && ctx.Err() == nil && !r.Again(ctx, tries, result.Err) {
			break
		}
	}
	if p != nil {
		r.started(result)
		decided()
		result.Status, result.Err = outcomeOf(ctx, p.end(ctx, r.Grace))
		result.Took = time.Since(result.Begun)
	}
	done()
	r.ended(result)
}

// outcomeOf converts the end of a process to a status and an error.
func outcomeOf(ctx context.Context, end error) (status int, err error) {
	failed := (*exec.ExitError)(nil)
	switch {
	case end == nil:
		return 0, nil
	case !errors.As(end, &failed):
		return -1, end
	case ctx.Err() != nil:
		return failed.ExitCode(), ErrStopped
	}
	if signal := child.KilledBy(end); signal != 0 {
		return -1, &KilledError{signal}
	}
	return failed.ExitCode(), fmt.Errorf("exit status %d", failed.ExitCode())
}

// begin starts a process, takes the lease for it, and sends it the command to become.
func (r *planRuns) begin(t *task, result *Result, stdout, stderr io.Writer, lease func(pid int) (api.RunningRun, error)) (*runProcess, error) {
	p, err := startRun(r.Self, r.Input, stdout, stderr)
	if err != nil {
		return nil, err
	}
	placed, err := lease(p.PID())
	if err == nil {
		err = p.become(r.Order(t.run, placed))
	}
	if err != nil {
		p.abort()
		return nil, err
	}
	result.RunningRun, result.PID, result.Begun = placed, p.PID(), time.Now()
	return p, nil
}

func (r *planRuns) started(result *Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if result.Lease != nil {
		r.running = append(r.running, result)
	}
	r.Show.Started(*result)
}

func (r *planRuns) ended(result *Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = slices.DeleteFunc(r.running, func(other *Result) bool { return other == result })
	r.results[result.Name] = *result
	r.change.Broadcast()
	r.Show.Ended(*result)
}
