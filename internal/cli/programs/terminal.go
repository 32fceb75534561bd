package programs

import (
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is the terminal that a run reads from. It listens to one process group at a
// time, so this process lends it to the run and takes it back, as a shell does.
type terminal struct {
	fd   int
	lent bool
}

// terminalOf returns the terminal that is f. It returns nil if f is not a terminal, or
// not the one that started this process.
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

// group returns the process group that the terminal listens to.
func (t *terminal) group() int {
	group, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

// ours reports whether the terminal listens to this process. It does not while
// this process is in the background.
func (t *terminal) ours() bool { return t.group() == unix.Getpgrp() }

// lend makes the terminal listen to another process group, if it listens to
// this process now.
func (t *terminal) lend(group int) {
	if t != nil && t.ours() {
		t.lent = t.listen(group) == nil
	}
}

// takeBack makes the terminal listen to this process again.
func (t *terminal) takeBack() {
	if t != nil && t.lent {
		_ = t.listen(unix.Getpgrp()) // the terminal may be gone
		t.lent = false
	}
}

// listen changes the group that the terminal listens to. The kernel stops a background
// process that does this, unless the calling thread blocks the signal.
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

// pause stops this process and its process group until the shell continues them. If no
// shell can continue them, the kernel does not stop them, and the run continues after a
// moment.
func pause() {
	_ = unix.Kill(0, syscall.SIGTSTP)
	time.Sleep(50 * time.Millisecond) // the kernel stops this process in here
}
