package process

import "golang.org/x/sys/unix"

// SetOrdinary gives a process that was just started the usual priority of
// programs. The daemon may run with a higher one, which the process would
// inherit. SetOrdinary reports no failure: then the process has ended, or has
// no higher priority.
func SetOrdinary(pid int) { _ = unix.Setpriority(unix.PRIO_PROCESS, pid, 0) }
