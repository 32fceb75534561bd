package crew

import (
	"errors"
	"os/signal"
	"syscall"

	"github.com/berth-gpu/berth/internal/cexec"
	"github.com/berth-gpu/berth/internal/child"
	"github.com/berth-gpu/berth/internal/runner"
)

// KeepIgnored ignores the signals that were ignored when this process began,
// whatever was done with them since: the user did not want them to end anything.
func KeepIgnored() {
	for _, s := range cexec.Ignored() {
		signal.Ignore(s)
	}
}

// Become makes this process the program; it returns only if it cannot. The
// process stays the same to the kernel: execve keeps the pid and the time of
// its start, so a lease that is bound to it goes on holding, and ends with the
// program.
//
// Nothing of ours is left in it. Every file that Go opens is closed by execve,
// handlers of signals become defaults, and limits that Go raised go back. Become
// undoes the rest of what Go changes by itself: signals that were ignored when
// this process began would be at their defaults, and those of the first three
// files that were closed would be open.
func Become(file string, command, environ []string) error {
	KeepIgnored()
	for _, fd := range cexec.Closed() {
		_ = syscall.Close(fd)
	}
	err := syscall.Exec(file, command, environ)
	if errors.Is(err, syscall.ENOEXEC) {
		// A script without a first line that names its interpreter: a shell
		// takes it for its own.
		err = syscall.Exec("/bin/sh", append([]string{"sh", file}, command[1:]...), environ)
	}
	exit := child.ExitNotExecutable
	reason := err.Error()
	if errors.Is(err, syscall.ENOENT) { // the file was there
		reason, exit = "the interpreter that its first line names, or its loader, is not there", child.ExitNotFound
	}
	return &child.ProgramError{Name: file, Reason: reason, Exit: exit}
}

// ErrNoOrder means that the parent of this process ended before it said what to
// become.
var ErrNoOrder = runner.ErrNoOrder

// Obey waits for the order that RunPlan gives to a process of its own, and
// becomes that command. It returns only if it cannot.
func Obey() error {
	order, err := runner.Await()
	if err != nil {
		return err
	}
	return Become(order.Path, order.Args, order.Env)
}
