package programs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/process"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "become" {
		o, err := awaitOrder()
		if err == nil {
			err = syscall.Exec(o.Path, o.Args, o.Env)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(127)
	}
	goleak.VerifyTestMain(m)
}

// stage is a machine of two devices that grants leases, and hears everything.
type stage struct {
	runOptions
	slots chan struct{} // full: nothing is granted before something ends

	mu      sync.Mutex
	output  map[string]*bytes.Buffer
	begun   []string
	held    int
	most    int // leases at the same time
	asked   map[string]int
	refuses func(run string, try int) error
	begins  func()       // called when a run has begun; nil for nothing
	after   func(Result) // the same when a run has ended
}

// newStage plans a plate of wells on two devices, a script for each.
func newStage(t *testing.T, wells, slots int, script string) *stage {
	t.Helper()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	plate := api.PlannedPipeline{Name: "plate", Memory: 1, Slots: 1}
	for i := range wells {
		plate.Runs = append(plate.Runs, api.PlannedRun{Name: fmt.Sprintf("plate[%d]", i), GPU: fmt.Sprintf("GPU-%d", i%2), Wave: 1 + i/slots})
	}
	s := &stage{slots: make(chan struct{}, slots), output: map[string]*bytes.Buffer{}, asked: map[string]int{}}
	s.runOptions = runOptions{
		Plan: api.Plan{
			Pipelines: []api.PlannedPipeline{plate, {Name: "summary", Runs: []api.PlannedRun{{Name: "summary"}}}},
			Devices:   []api.PlannedLoad{{GPU: "GPU-0", SideBySide: (slots + 1) / 2}, {GPU: "GPU-1", SideBySide: slots / 2}},
		},
		Self: []string{"berth", "become"},
		Order: func(run api.PlannedRun, placed api.RunningRun) runOrder {
			env := append(os.Environ(), "RUN="+run.Name)
			if placed.Lease != nil {
				env = append(env, "GPU="+placed.Lease.Parts[0].GPU)
			}
			return runOrder{Path: shell, Args: []string{"sh", "-c", script}, Env: env}
		},
		Lease: s.lease,
		Again: func(context.Context, int, error) bool { return false },
		Show:  s,
		CPUs:  1, Grace: time.Minute,
	}
	return s
}

// Output keeps what a run writes.
func (s *stage) Output(run string) (stdout, stderr io.Writer, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.output[run] = &bytes.Buffer{}
	return s.output[run], s.output[run], func() {}
}

// Started notes the order in which runs begin.
func (s *stage) Started(r Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun = append(s.begun, r.Name); s.begins != nil {
		s.begins()
	}
}

// Ended makes room for the next lease.
func (s *stage) Ended(r Result) {
	if r.Lease != nil {
		s.mu.Lock()
		s.held--
		s.mu.Unlock()
		<-s.slots
	}
	if s.after != nil {
		s.after(r)
	}
}

// Waits does nothing: the stage takes leases itself.
func (s *stage) Waits(context.Context, string, string) func() { return func() {} }

// Say does nothing: no run asks again.
func (s *stage) Say(string, ...any) {}

func (s *stage) lease(ctx context.Context, p *api.PlannedPipeline, run api.PlannedRun, pid int) (api.RunningRun, error) {
	s.mu.Lock()
	s.asked[run.Name]++
	if s.refuses != nil {
		if err := s.refuses(run.Name, s.asked[run.Name]); err != nil {
			s.mu.Unlock()
			return api.RunningRun{}, err
		}
	}
	s.mu.Unlock()
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return api.RunningRun{}, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held++
	s.most = max(s.most, s.held)
	held := api.Lease{ID: run.Name, Holder: api.Holder{PID: pid}, Parts: []api.LeasePart{{GPU: run.GPU}}}
	return api.RunningRun{Name: run.Name, Pipeline: p.Name, Placement: api.PlacedAsPlanned, Lease: &held}, nil
}

func (s *stage) said(run string) string { return strings.TrimSpace(s.output[run].String()) }

func TestEveryRunIsDone(t *testing.T) {
	s := newStage(t, 7, 3, `echo "$RUN on $GPU as $$"`)
	s.Plan.Pipelines[0].Runs[6].Wave = 0 // others were in its way when it was planned
	results := doRuns(t.Context(), s.runOptions)
	if len(results) != 8 {
		t.Fatalf("%d results", len(results))
	}
	for i, r := range results[:7] {
		if r.Name != fmt.Sprintf("plate[%d]", i) || r.Err != nil || r.Status != 0 || r.Begun.IsZero() {
			t.Errorf("result %d is %+v", i, r)
		}
		// The process that has the lease is the command itself.
		if want := fmt.Sprintf("%s on GPU-%d as %d", r.Name, i%2, r.Lease.Holder.PID); s.said(r.Name) != want || r.PID != r.Lease.Holder.PID {
			t.Errorf("%s said %q, want %q", r.Name, s.said(r.Name), want)
		}
	}
	if r := results[7]; r.Placement != api.PlacedNowhere || r.Lease != nil || r.Err != nil || !strings.HasPrefix(s.said("summary"), "summary on  as") {
		t.Errorf("summary: %+v, said %q", r, s.said("summary"))
	}
	if s.most > 3 || s.held != 0 {
		t.Errorf("%d leases at a time, %d left", s.most, s.held)
	}
}

func TestFailuresAreTold(t *testing.T) {
	s := newStage(t, 5, 5, `case $RUN in
		'plate[1]') exit 3;;
		'plate[2]') kill -9 $$;;
		'plate[3]') sleep 1000 & echo $!; exit 0;; # it leaves something behind
		esac`)
	refusal := errors.New("over the quota")
	s.refuses = func(run string, _ int) error {
		if run == "plate[4]" {
			return refusal
		}
		return nil
	}
	results := doRuns(t.Context(), s.runOptions)
	for i, want := range []struct {
		status int
		text   string
	}{{0, "<nil>"}, {3, "exit status 3"}, {-1, "killed by SIGKILL"}, {0, "<nil>"}, {-1, refusal.Error()}, {0, "<nil>"}} {
		if r := results[i]; r.Status != want.status || fmt.Sprint(r.Err) != want.text {
			t.Errorf("%s: status %d, %v", r.Name, r.Status, r.Err)
		}
	}
	if r := results[4]; r.Placement != api.PlaceRefused || !r.Begun.IsZero() || r.Lease != nil {
		t.Errorf("a run without a lease: %+v", r)
	}
	ends(t, s.said("plate[3]"))
}

// ends waits until a process has ended, whose number a run has written.
func ends(t *testing.T, said string) {
	t.Helper()
	pid, err := strconv.Atoi(said)
	if err != nil {
		t.Fatal(err)
	}
	for table := process.Proc(); ; runtime.Gosched() {
		if id, err := table.Identify(pid); err != nil || !table.Alive(id) {
			return
		}
	}
}

func TestACommandThatCannotBeStarted(t *testing.T) {
	s := newStage(t, 1, 1, "")
	s.Order = func(api.PlannedRun, api.RunningRun) runOrder {
		return runOrder{Path: "/dev/null", Args: []string{"x"}}
	}
	results := doRuns(t.Context(), s.runOptions)
	if r := results[0]; r.Status != 127 || !strings.Contains(s.said("plate[0]"), "permission denied") {
		t.Errorf("%+v, said %q", r, s.said("plate[0]"))
	}
}

// When nobody knows what became of a lease, the child that it was for is gone
// before it is tried again with another.
func TestAgain(t *testing.T) {
	s := newStage(t, 1, 1, "exit 0")
	broken := errors.New("the connection broke")
	var before []int
	lease := s.Lease
	s.Lease = func(ctx context.Context, p *api.PlannedPipeline, run api.PlannedRun, pid int) (api.RunningRun, error) {
		if len(before) < 2 {
			before = append(before, pid)
			return api.RunningRun{}, broken
		}
		return lease(ctx, p, run, pid)
	}
	s.Again = func(_ context.Context, tries int, err error) bool {
		if err != broken || tries != len(before) || syscall.Kill(before[len(before)-1], 0) == nil {
			t.Errorf("asked for %v, and process %d lives", err, before[len(before)-1])
		}
		return true
	}
	if r := doRuns(t.Context(), s.runOptions)[0]; r.Err != nil || slices.Contains(before, r.PID) {
		t.Errorf("%+v after %v", r, before)
	}
}

func TestStoppingEndsEverything(t *testing.T) {
	s := newStage(t, 4, 2, `case $RUN in
		'plate[0]') trap 'exit 0' TERM;; # ends by itself
		'plate[1]') trap '' TERM;; # has to be killed
		summary) exit 0;;
		esac
		sleep 1000 & echo $!; wait; wait`)
	s.Grace = 200 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	s.begins = func() {
		if slices.Contains(s.begun, "plate[0]") && slices.Contains(s.begun, "plate[1]") {
			stop()
		}
	}
	results := doRuns(ctx, s.runOptions)
	for _, r := range results[:2] {
		ends(t, cmp.Or(s.said(r.Name), fmt.Sprint(r.PID))) // it may not have got as far as starting something
	}
	for _, r := range results[1:4] {
		if !errors.Is(r.Err, ErrStopped) {
			t.Errorf("%s: %v", r.Name, r.Err)
		}
	}
	if results[2].PID != 0 || results[3].PID != 0 || s.held != 0 {
		t.Errorf("runs were started after the stop, or leases kept: %+v", results)
	}
}
