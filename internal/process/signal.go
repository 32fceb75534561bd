package process

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Signal is what can be sent to a process.
type Signal = unix.Signal

// The signals that berth sends.
const (
	Probe     = Signal(0)    // only asks whether the process may be signalled
	Terminate = unix.SIGTERM // asks the process to end
	Kill      = unix.SIGKILL // ends the process
	Stop      = unix.SIGSTOP // stops the process until it is continued
	Continue  = unix.SIGCONT // continues a stopped process
)

// Signal sends a signal to this very process, and never to another one that got
// the same pid: it opens a pidfd, checks which process that is, and sends the
// signal through the pidfd. It returns ErrGone if the process is gone. A
// simulated process ends with the first signal.
func (t Table) Signal(id ID, signal Signal) error {
	if in, start := t.simulated.of(id.PID); in != nil && start == id.Start {
		if signal != Probe {
			in.End(id.PID)
		}
		return nil
	}
	fd, err := unix.PidfdOpen(id.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal process %d: %w", id.PID, ErrGone)
	}
	if err != nil {
		return fmt.Errorf("signal process %d: %w", id.PID, err)
	}
	defer unix.Close(fd)
	if !t.Alive(id) {
		return fmt.Errorf("signal process %d: %w", id.PID, ErrGone)
	}
	if err := unix.PidfdSendSignal(fd, signal, nil, 0); errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal process %d: %w", id.PID, ErrGone)
	} else if err != nil {
		return fmt.Errorf("signal process %d: %w", id.PID, err)
	}
	return nil
}
