package worker

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/process/child"
)

// Process is a worker that Start has started.
type Process struct {
	*child.Child
	in     *os.File // to the worker
	out    *os.File // from the worker
	output *output
	gone   chan struct{} // closed when the process and its group are gone
}

// closeWhenGone waits until the worker is gone, and then closes the pipes.
func (p *Process) closeWhenGone() {
	<-p.Child.Gone()
	p.output.flush()
	_ = p.in.Close()
	// A process that left the group may hold the pipe open: do not wait for it.
	_ = p.out.SetReadDeadline(time.Now().Add(time.Second))
	close(p.gone)
}

// Gone is closed when the worker and its group are gone.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Send writes to the worker. It returns os.ErrDeadlineExceeded if the worker
// does not take all of it in time.
func (p *Process) Send(data []byte, timeout time.Duration) error {
	if err := p.in.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	_, err := p.in.Write(data)
	return err
}

// Read reads what the worker writes on its pipe. It fails soon after the worker
// is gone.
func (p *Process) Read(to []byte) (int, error) { return p.out.Read(to) }

// End sends last to the worker and closes its input. If the worker is still
// alive after the grace, End tells it to end, and then kills it. End returns
// when the worker is gone, or cannot be killed.
func (p *Process) End(last []byte, grace time.Duration) {
	_ = p.Send(last, grace)
	_ = p.in.Close()
	if !p.within(grace) {
		p.Signal(unix.SIGTERM)
		p.within(min(grace, time.Second))
	}
	p.Destroy()
}

// killTimeout is how long a process may take to die of SIGKILL. A process that
// hangs in a driver does not die at all, and must not hold up the run.
const killTimeout = 10 * time.Second

// Destroy kills the worker, waits until it is gone, and closes the pipes. It
// gives up on a process that cannot be killed, and reads nothing more from it.
func (p *Process) Destroy() { p.destroy(killTimeout) }

func (p *Process) destroy(timeout time.Duration) {
	p.Kill()
	p.within(timeout)
	_ = p.in.Close()
	_ = p.out.Close()
}

// within waits until the worker is gone, and reports whether it is.
func (p *Process) within(timeout time.Duration) bool {
	select {
	case <-p.gone:
		return true
	case <-time.After(timeout):
		return false
	}
}

// ExitStatus returns how the worker ended, and whether a signal ended it. The worker must
// be gone.
func (p *Process) ExitStatus() (text string, signalled bool) {
	state := p.State()
	status, _ := state.Sys().(syscall.WaitStatus)
	return state.String(), status.Signaled()
}

// LastOutput returns the last lines that the worker printed, on one line.
func (p *Process) LastOutput() string { return p.output.last() }
