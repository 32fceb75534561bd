package process

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Watch calls ended once, in a goroutine of its own, as soon as the process has
// ended. After stop, Watch does not call it any more; stop does not wait for a
// call that has begun, so ended itself may stop the watch. The kernel reports
// the end through a pidfd: Watch polls nothing, and never confuses the process
// with another one of the same pid.
func (t Table) Watch(id ID, ended func()) (stop func(), err error) {
	fd, err := unix.PidfdOpen(id.PID, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) {
		return nil, fmt.Errorf("watch process %d: %w", id.PID, ErrGone)
	}
	if err != nil {
		return nil, fmt.Errorf("watch process %d: %w (berth needs Linux 5.10 or later)", id.PID, err)
	}
	file := os.NewFile(uintptr(fd), "pidfd")
	// The pid may have been reused before the pidfd was opened, but not since.
	if !t.Alive(id) {
		return nil, errors.Join(fmt.Errorf("watch process %d: %w", id.PID, ErrGone), file.Close())
	}
	conn, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watch process %d: %w", id.PID, err), file.Close())
	}
	var over atomic.Bool
	go func() {
		if conn.Read(exited) == nil && !over.Swap(true) { // an error means that stop closed the file
			ended()
		}
		_ = file.Close()
	}()
	return func() {
		over.Store(true)
		_ = file.Close() // harmless if it is closed already
	}, nil
}

func exited(fd uintptr) bool {
	ended, _ := Ended(int(fd)) // false after an error
	return ended
}

// Ended reports whether the process of a pidfd has ended, without waiting.
func Ended(pidfd int) (bool, error) {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
		if err != unix.EINTR {
			return n > 0, err
		}
	}
}
