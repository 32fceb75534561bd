package process

import "golang.org/x/sys/unix"

// SetOrdinary gives a process that was just started the priority that programs
// usually have. The daemon may run with a higher one, and what it starts for
// others would inherit that. It is of no use to say that it failed: the process
// has ended then, or has no higher priority.
func SetOrdinary(pid int) { _ = unix.Setpriority(unix.PRIO_PROCESS, pid, 0) }
