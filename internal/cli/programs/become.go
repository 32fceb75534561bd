package programs

import (
	"errors"
	"os/signal"
	"syscall"

	"github.com/berth-gpu/berth/internal/process/cexec"
	"github.com/berth-gpu/berth/internal/process/child"
)

// KeepIgnored ignores the signals that were ignored when this process began, even if
// they have been handled since: the user did not want them to end anything.
func KeepIgnored() {
	for _, s := range cexec.Ignored() {
		signal.Ignore(s)
	}
}

// Become makes this process the program. It returns only if that fails. The process
// stays the same to the kernel: execve keeps the pid and the start time, so a lease
// that is bound to the process continues, and ends with the program.
//
// Nothing of berth remains in the program. execve closes every file that Go opens, sets
// signal handlers to their defaults, and restores the limits that Go raised. Become
// undoes the other changes of Go: it ignores again the signals that were ignored when
// this process began, and closes those of the first three files that were closed.
func Become(file string, command, environ []string) error {
	KeepIgnored()
	for _, fd := range cexec.Closed() {
		_ = syscall.Close(fd)
	}
	err := syscall.Exec(file, command, environ)
	if errors.Is(err, syscall.ENOEXEC) {
		// The script has no first line that names its interpreter, so a shell runs it.
		err = syscall.Exec("/bin/sh", append([]string{"sh", file}, command[1:]...), environ)
	}
	exit := child.ExitNotExecutable
	reason := err.Error()
	if errors.Is(err, syscall.ENOENT) { // the file exists
		reason, exit = "the interpreter that its first line names, or its loader, does not exist", child.ExitNotFound
	}
	return &child.ProgramError{Name: file, Reason: reason, Exit: exit}
}

// Obey waits for the order that RunPlan gives to a process that it starts, and becomes
// the command of the order. It returns only if that fails.
func Obey() error {
	order, err := awaitOrder()
	if err != nil {
		return err
	}
	return Become(order.Path, order.Args, order.Env)
}
