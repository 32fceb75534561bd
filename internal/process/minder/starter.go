package minder

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"syscall"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/process/child"
)

// Limits are what a run may use of the machine. Zero means no limit.
type Limits struct {
	CPUs       float64
	HostMemory gpu.MiB
}

// Starter starts minders.
type Starter struct {
	Command []string // runs a minder, without the flags that name the run
	Runs    string   // the folder of the runs
	Socket  string   // where minders find the daemon
}

// Start starts a minder for a run. It does not wait for the minder to begin: the record of
// the run says when it has. A run may be started again while nothing says that its command
// was started; only one minder gets past the lock of its record.
func (s *Starter) Start(ctx context.Context, run string, l Limits) error {
	if !runName.MatchString(run) {
		return fmt.Errorf("%q is not the name of a run", run)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if l != (Limits{}) {
		return errors.New("this daemon cannot limit CPUs and memory")
	}
	cmd := s.command(run)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a minder: %w", err)
	}
	go func() { _ = cmd.Wait() }() // its record says how it ended
	return nil
}

// command returns the command that runs a minder as a child of this process, away from
// its terminal, its files and its environment.
func (s *Starter) command(run string) *exec.Cmd {
	cmd := exec.Command(s.Command[0], append(slices.Clone(s.Command[1:]), s.flags(run)...)...)
	cmd.Env, cmd.Dir = []string{"PATH=" + child.PathOf(nil)}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

func (s *Starter) flags(run string) []string {
	return []string{"--runs", s.Runs, "--run", run, "--socket", s.Socket}
}
