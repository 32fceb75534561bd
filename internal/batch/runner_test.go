package batch

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/batch/outcome"
	"github.com/berth-gpu/berth/internal/batch/record"
	workers "github.com/berth-gpu/berth/internal/batch/worker"
)

// The test binary, started again with this variable, is a runner: the process
// that berth run would be. Its events come out on file descriptor 3.
const envTestRunner = "BERTH_TEST_RUNNER"

// runnerSpec is what such a runner does, as JSON in the variable.
type runnerSpec struct {
	Input, Output, Marks string
	Command              []string // of the workers; nil: the usual one
	Shape                outcome.Shape
	Cost                 record.Cost
	GPUs, PerGPU         int
	Batch                int
	Timeout              time.Duration
	FileLimit            uint64      // the largest file it may write; 0: any
	Lose                 map[int]int // GPUs that lose their leases, by how many groups were committed before
}

func (s runnerSpec) command() workers.Command {
	return workers.Command{
		Args: append(s.Command, os.Args[0])[:max(len(s.Command), 1)],
		Env:  []string{envTestWorker + "=1", envTestRunner + "=", "BERTH_TEST_MARKS=" + s.Marks, quickExit},
	}
}

func (s runnerSpec) options(m *machine, starter *workers.Starter) Options {
	return Options{
		Input:  record.Spec{Paths: []string{s.Input}, Cost: s.Cost},
		Output: s.Output,
		Shape:  s.Shape,
		Start:  func(prefix string, env []string) (Process, error) { return starter.Start(prefix, env) },
		Leases: m,
		Batch:  s.Batch, Timeout: s.Timeout, Tries: 5, Restarts: 100,
		Backoff: time.Millisecond, CommitEvery: time.Millisecond, StopGrace: 20 * time.Second,
	}
}

// The exit codes of a runner.
const (
	runnerDone = iota
	runnerFull
	runnerExists
	runnerFailed
)

func runTestRunner() int {
	var s runnerSpec
	if err := json.Unmarshal([]byte(os.Getenv(envTestRunner)), &s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return runnerFailed
	}
	if s.FileLimit > 0 {
		signal.Ignore(syscall.SIGXFSZ)
		limit := syscall.Rlimit{Cur: s.FileLimit, Max: s.FileLimit}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return runnerFailed
		}
	}
	m := newMachine(s.GPUs, s.PerGPU)
	starter, err := workers.NewStarter(s.command())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return runnerFailed
	}
	defer starter.Close()
	o := s.options(m, starter)
	events := os.NewFile(3, "events")
	commits := 0
	o.Notify = func(e Event) {
		fmt.Fprintln(events, e.Code, e.Worker, e.Text)
		if e.Code == EventCommitted { // by one goroutine
			if gpu, ok := s.Lose[commits]; ok {
				m.loseLeases(gpu)
			}
			commits++
		}
	}
	r, err := Open(context.Background(), o)
	if err == nil {
		var summary Summary
		summary, err = r.Run(context.Background())
		fmt.Fprintln(events, "summary", summary.Records)
	}
	switch {
	case err == nil:
		return runnerDone
	case errors.Is(err, outcome.ErrFull):
		return runnerFull
	case errors.Is(err, outcome.ErrExists):
		return runnerExists
	}
	fmt.Fprintln(os.Stderr, err)
	return runnerFailed
}

// runRunner starts a runner and kills it at the event that kill chooses. It
// returns the exit code, -1 if it was killed, and what it told.
func runRunner(t testing.TB, s runnerSpec, kill func(event string) bool) (int, string) {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envTestRunner+"="+string(text), quickExit)
	cmd.ExtraFiles = []*os.File{write}
	var story strings.Builder
	cmd.Stderr = &story
	err = cmd.Start()
	_ = write.Close()
	if err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	lines := bufio.NewScanner(read)
	for lines.Scan() {
		told.WriteString(lines.Text() + "\n")
		if kill != nil && kill(lines.Text()) {
			_ = cmd.Process.Kill()
		}
	}
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode(), told.String() + story.String()
}
