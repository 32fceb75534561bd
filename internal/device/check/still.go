package check

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/process"
)

// stills keeps the threads of processes still while their memory moves, except the one in
// which the driver works. A driver makes most calls of a locked process wait, but not
// all: driver 580 lets cuStreamQuery through, which then reads memory that is away, and
// the process crashes.
//
// stills holds a thread by tracing it, which its parent does not notice. The kernel lets
// the thread go when this process ends.
type stills struct {
	mu   sync.Mutex
	held map[move.Process]*tracer
}

// hold keeps all threads of a process still except but. Without an error, they stay still
// until let.
func (s *stills) hold(id move.Process, but int) error {
	s.mu.Lock()
	t := s.held[id]
	if t == nil {
		t = newTracer()
		if s.held == nil {
			s.held = map[move.Process]*tracer{}
		}
		s.held[id] = t
	}
	s.mu.Unlock()
	err := t.do(func() error { return t.seize(id.PID, but) })
	if err != nil {
		s.let(id)
	}
	return err
}

// let lets the threads of a process go. The process need not be held.
func (s *stills) let(id move.Process) {
	s.mu.Lock()
	t := s.held[id]
	delete(s.held, id)
	s.mu.Unlock()
	if t == nil {
		return
	}
	_ = t.do(func() error { t.detach(id.PID); return nil })
	close(t.work)
}

// tracer traces threads. The kernel accepts orders about a traced thread only from the
// thread that began to trace it, so one thread does all the work.
type tracer struct {
	work    chan func()
	threads map[int]unix.Signal // the still ones, each with the signal that it was about to take, or 0
}

func newTracer() *tracer {
	t := &tracer{work: make(chan func()), threads: map[int]unix.Signal{}}
	go func() {
		runtime.LockOSThread() // for ever: the thread ends with the goroutine
		for work := range t.work {
			work()
		}
	}()
	return t
}

// do calls f in the tracing thread.
func (t *tracer) do(f func() error) error {
	done := make(chan error)
	t.work <- func() { done <- f() }
	return <-done
}

// seize stops the threads of a process that are not still yet, except but. Running
// threads may start others, so it looks again until there are no new ones.
func (t *tracer) seize(pid, but int) error {
	const most = 1000 // gives up on a process that starts threads faster than they are stopped
	for range most {
		tids, err := process.Proc().Threads(pid)
		if err != nil {
			return err
		}
		found := false
		for _, tid := range tids {
			if _, still := t.threads[tid]; still || tid == but {
				continue
			}
			if err := t.stop(tid); err != nil {
				return fmt.Errorf("stop thread %d of process %d: %w", tid, pid, err)
			}
			found = true
		}
		if !found {
			return nil
		}
	}
	return fmt.Errorf("process %d starts threads without end", pid)
}

// stop stops a thread. The thread may have ended.
func (t *tracer) stop(tid int) error {
	err := unix.PtraceSeize(tid)
	if err == nil {
		err = unix.PtraceInterrupt(tid)
	}
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(tid, &status, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ECHILD) || err == nil && !status.Stopped(): // it has ended
			return nil
		case err != nil:
			return err
		}
		t.threads[tid] = 0
		if uint32(status)>>16 != unix.PTRACE_EVENT_STOP { // it was about to take a signal
			t.threads[tid] = status.StopSignal()
		}
		return nil
	}
}

// detach lets all threads of a process go, with the signals that they were about to
// take. A thread that was killed meanwhile stays until its tracer has asked how it
// ended, and the first thread until all others have gone.
func (t *tracer) detach(pid int) {
	tids := slices.Collect(maps.Keys(t.threads))
	if i := slices.Index(tids, pid); i >= 0 {
		tids = append(slices.Delete(tids, i, i+1), pid)
	}
	for _, tid := range tids {
		_, _, err := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(tid), 0, uintptr(t.threads[tid]), 0, 0)
		if err == unix.ESRCH {
			var status unix.WaitStatus
			for {
				if _, err := unix.Wait4(tid, &status, unix.WALL, nil); !errors.Is(err, unix.EINTR) {
					break
				}
			}
		}
	}
	clear(t.threads)
}
