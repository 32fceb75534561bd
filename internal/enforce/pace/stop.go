package pace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// ErrDenied means that this process may not signal another process.
var ErrDenied = errors.New("the daemon may not signal it")

// errLeave means that a process is left alone: somebody else stopped it or traces it, it
// runs a program of berth, or it has ended.
var errLeave = errors.New("it is left as it is")

// isBerth reports whether a process runs a program of berth. Such processes are never
// stopped: they hold locks on journals and on the results of batches, and they manage
// their children. The name is not enough, because everybody can give a program that name:
// the file must belong to root or to the daemon's user.
func isBerth(table process.Table, pid int) bool {
	name := filepath.Base(table.Program(pid))
	if name != "berth" && !strings.HasPrefix(name, "berth-") {
		return false
	}
	owner, changeable, err := table.ProgramOwner(pid)
	return err == nil && !changeable && (owner == 0 || owner == os.Geteuid())
}

// stoppable returns nil if a process may be stopped by a signal, errLeave if it has to be
// left alone, and otherwise the reason why no process of its lease may be stopped.
//
// A signal that stops a process also notifies its parent. A shell at a terminal would
// take the terminal back and report the job as stopped; if the shell ended meanwhile, the
// kernel would hang the job up. So stoppable refuses a job of a shell at a terminal. The
// workers of a batch are jobs of its runner, which can handle it.
func stoppable(table process.Table, id process.ID) error {
	c, err := table.Control(id)
	switch {
	case errors.Is(err, process.ErrGone):
		return errLeave
	case err != nil:
		return err
	case c.Stopped || c.Tracer != 0 || isBerth(table, id.PID):
		return errLeave
	case c.Manager != 0 && (c.Foreground || !isBerth(table, c.Manager)):
		return fmt.Errorf("process %d is a job of %s (process %d) at a terminal, which would take it for stopped; start it without the terminal, as with setsid -w, or as a service",
			id.PID, table.Name(c.Manager), c.Manager)
	}
	if err := table.Signal(kinship.Authority(), id, process.Probe); errors.Is(err, unix.EPERM) {
		return fmt.Errorf("process %d: %w, because it belongs to another user and the daemon is not root", id.PID, ErrDenied)
	}
	return nil
}

// continueStopped continues processes that berth may have left stopped, whether they look
// stopped or not: a signal to stop waits while its process is in an uninterruptible call,
// and one to continue takes it back. A tracer that came meanwhile gets it for its process.
// continueStopped returns how many were stopped, and those that have to be tried again.
func continueStopped(table process.Table, ids []process.ID) (continued int, again []process.ID) {
	for _, id := range ids {
		c, err := table.Control(id)
		if err == nil {
			err = table.Signal(kinship.Authority(), id, process.Continue)
		}
		switch {
		case err == nil && c.Stopped:
			continued++
		case err != nil && !errors.Is(err, process.ErrGone) && !errors.Is(err, unix.EPERM):
			again = append(again, id)
		}
	}
	return continued, again
}
