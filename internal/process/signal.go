package process

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/process/kinship"
)

// Signal is a signal to a process.
type Signal = unix.Signal

// The signals that berth sends.
const (
	Probe     = Signal(0)    // only asks whether the process may be signalled
	Terminate = unix.SIGTERM // asks the process to end
	Kill      = unix.SIGKILL // ends the process
	Stop      = unix.SIGSTOP // stops the process until it is continued
	Continue  = unix.SIGCONT // continues a stopped process
)

// SignalOf returns the signal with a name such as USR1.
func SignalOf(name string) (Signal, bool) {
	number := unix.SignalNum("SIG" + name)
	return number, number != 0
}

// ErrSpared means that an act must not reach a process: the user in whose name it happens
// could not signal it.
var ErrSpared = errors.New("it belongs to another user")

// Reach divides processes into those that an act reaches and those that it must spare. It
// leaves out those that have ended.
func (t Table) Reach(in kinship.Mandate, ids []ID) (reached, spared []ID) {
	for _, id := range ids {
		switch err := t.Reaches(in, id); {
		case err == nil:
			reached = append(reached, id)
		case !errors.Is(err, ErrGone):
			spared = append(spared, id)
		}
	}
	return reached, spared
}

// Reaches returns nil if an act reaches exactly this process, and ErrSpared if it does
// not or if that is unknown. A caller that sends a signal opens a pidfd, calls Reaches,
// and sends at once. A process can still change its user in between: then its old user
// could have sent the signal in the same moment.
func (t Table) Reaches(in kinship.Mandate, id ID) error {
	uids, err := kinship.UIDs{}, error(nil)
	if !in.All {
		uids, err = t.UIDs(id.PID)
	}
	if gone := t.lives(id); gone != nil { // last, so that the uids are those of this process
		return gone
	}
	if err != nil || !in.Reaches(id, uids) {
		return fmt.Errorf("process %d: %w", id.PID, ErrSpared)
	}
	return nil
}

// Describe names processes for people, each by its number and its name. It names only the
// first few, and counts the others.
func (t Table) Describe(ids []ID) []string {
	const most = 8
	var list []string
	for i, id := range ids {
		if i == most {
			return append(list, fmt.Sprintf("%d more", len(ids)-most))
		}
		list = append(list, fmt.Sprintf("%d (%s)", id.PID, t.Name(id.PID)))
	}
	return list
}

// Signal sends a signal to exactly this process, and never to another one that got the
// same pid: it opens a pidfd, checks which process that is and whether the mandate
// reaches it, and sends the signal through the pidfd. It returns ErrGone if the process
// is gone, and ErrSpared if the mandate does not reach it. A simulated process that is not
// in a World ends with the first signal.
func (t Table) Signal(in kinship.Mandate, id ID, signal Signal) error {
	if sim, start := t.simulated.of(id.PID); sim != nil && start == id.Start {
		if err := t.Reaches(in, id); err != nil {
			return fmt.Errorf("signal %w", err)
		}
		switch {
		case t.world != nil:
			t.world.Deliver(id.PID, signal)
		case signal != Probe:
			sim.End(id.PID)
		}
		return nil
	}
	fd, err := unix.PidfdOpen(id.PID, 0)
	if err != nil {
		return fmt.Errorf("signal %w", gone(id.PID, err))
	}
	defer unix.Close(fd)
	if err := t.Reaches(in, id); err != nil {
		return fmt.Errorf("signal %w", err)
	}
	if err := unix.PidfdSendSignal(fd, signal, nil, 0); err != nil {
		return fmt.Errorf("signal %w", gone(id.PID, err))
	}
	return nil
}
