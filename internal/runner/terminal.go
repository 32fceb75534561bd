package runner

import (
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is the one that a run reads from. It listens to one process group at
// a time, so it is lent to the run and taken back, as a shell does.
type terminal struct {
	fd   int
	lent bool
}

// terminalOf is the terminal that a file is, or nil: it is none, or not the one
// that we were started at.
func terminalOf(f *os.File) *terminal {
	if f == nil {
		return nil
	}
	t := &terminal{fd: int(f.Fd())}
	if t.group() == 0 {
		return nil
	}
	return t
}

// group is the process group that it listens to.
func (t *terminal) group() int {
	group, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

// ours reports whether it listens to us; it does not while we are in the
// background.
func (t *terminal) ours() bool { return t.group() == unix.Getpgrp() }

// lend lets it listen to another process group, if it is ours to lend.
func (t *terminal) lend(group int) {
	if t != nil && t.ours() {
		t.lent = t.listen(group) == nil
	}
}

// takeBack ends the lending.
func (t *terminal) takeBack() {
	if t != nil && t.lent {
		_ = t.listen(unix.Getpgrp()) // it may have been hung up
		t.lent = false
	}
}

// listen changes the group. Whoever does that from the background is stopped,
// unless the thread that does it has the signal blocked.
func (t *terminal) listen(group int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, blocked unix.Sigset_t
	blocked.Val[0] = 1 << (unix.SIGTTOU - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &blocked, &before); err != nil {
		return err
	}
	err := unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group)
	if restored := unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil); err == nil {
		err = restored
	}
	return err
}

// pause stops us and everybody in our process group, until the shell lets us go
// on. Where there is no shell that could, the kernel does not stop us, and the
// run goes on after a moment.
func pause() {
	_ = unix.Kill(0, syscall.SIGTSTP)
	time.Sleep(50 * time.Millisecond) // it stops us somewhere in here
}
