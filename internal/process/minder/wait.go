package minder

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
	"github.com/berth-gpu/berth/internal/process/runs"
)

const (
	// leaveWithin is how long what the command leaves behind may take to end by itself
	// after SIGTERM.
	leaveWithin = 3 * time.Second
	// killedWithin is how long the kernel may take to end what was killed.
	killedWithin = 2 * time.Second
)

// usage adds up what the processes of a run have used.
type usage struct {
	peak gpu.MiB
	cpu  time.Duration

	// own is the peak of the minder when it started the command. Until a new process runs
	// its program, it shares the memory of the minder, and the kernel counts that.
	own gpu.MiB
}

// begin notes the peak of the minder itself.
func (u *usage) begin() {
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err == nil {
		u.own = peakOf(&self)
	}
}

func peakOf(r *syscall.Rusage) gpu.MiB {
	const mib = 1 << 10 // the kernel counts in KiB
	return gpu.MiB((r.Maxrss + mib - 1) / mib)
}

func (u *usage) add(r *syscall.Rusage) {
	if peak := peakOf(r); peak > u.own { // those that each process has waited for count in it
		u.peak = max(u.peak, peak)
	}
	u.cpu += time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// wait waits for the end of the command, and reaps everything else that ends meanwhile.
func (m *minder) wait(command int) runs.Record {
	for {
		status, over, _ := m.reap(command)
		if over {
			return m.outcome(status)
		}
		<-m.ended
	}
}

// reap reaps the processes below this one that have ended. It reports whether the command
// is among them, how it ended, and whether no process is left below this one: those whose
// parents have ended are children of this process.
func (m *minder) reap(command int) (status syscall.WaitStatus, over, alone bool) {
	for {
		var one syscall.WaitStatus
		var used syscall.Rusage
		pid, err := syscall.Wait4(-1, &one, syscall.WNOHANG, &used)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil || pid <= 0:
			return status, over, errors.Is(err, syscall.ECHILD)
		}
		m.use.add(&used)
		if pid == command {
			status, over = one, true
		}
	}
}

// outcome describes how the command ended.
func (m *minder) outcome(status syscall.WaitStatus) runs.Record {
	var end runs.Record
	if status.Signaled() {
		end.Exit, end.Signal = gpu.Some(128+int(status.Signal())), unix.SignalName(status.Signal())
	} else {
		end.Exit = gpu.Some(status.ExitStatus())
	}
	return end
}

// endRest ends what the command has left behind: SIGTERM, some time, SIGKILL. It leaves
// processes that the user may not signal; they end with the control group of the run.
func (m *minder) endRest() {
	for _, step := range []struct {
		first, then process.Signal
		within      time.Duration
	}{
		{process.Terminate, process.Probe, leaveWithin},
		{process.Kill, process.Kill, killedWithin}, // again, because each may have started another one
	} {
		signal := step.first
		for deadline := time.After(step.within); deadline != nil; signal = step.then {
			if _, _, alone := m.reap(0); alone || m.signalRest(signal) == 0 {
				return
			}
			select {
			case <-m.ended:
			case <-deadline:
				deadline = nil
			}
		}
	}
}

// signalRest signals every process below this one, and returns how many it reached. A
// process that is stopped gets the signal when it continues, so it is continued.
func (m *minder) signalRest(signal process.Signal) int {
	table, reached := process.Proc(), 0
	self, err := table.Identify(os.Getpid())
	if err != nil {
		return 0
	}
	for _, id := range table.Family().Tree([]process.ID{self}) {
		if id == self || table.Signal(kinship.Authority(), id, signal) != nil {
			continue
		}
		reached++
		if signal == process.Terminate {
			_ = table.Signal(kinship.Authority(), id, process.Continue)
		}
	}
	return reached
}
