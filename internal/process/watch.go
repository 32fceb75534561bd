package process

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// Watch does what WatchEnd does, for those who need not know how the process ended.
func (t Table) Watch(id ID, ended func()) (stop func(), err error) {
	return t.WatchEnd(id, func(bool) { ended() })
}

// WatchEnd calls ended once, in a goroutine of its own, as soon as the process has
// ended, and says whether a signal killed it, as far as the kernel tells. After stop, WatchEnd does not call it any more; stop
// does not wait for a call that has begun, so ended itself may stop the watch. The
// kernel reports the end through a pidfd: WatchEnd polls nothing, and never confuses
// the process with another one of the same pid.
func (t Table) WatchEnd(id ID, ended func(killed bool)) (stop func(), err error) {
	if t.world != nil {
		if err := t.lives(id); err != nil {
			return nil, fmt.Errorf("watch %w", err)
		}
		return t.world.Watch(id.PID, ended), nil
	}
	fd, err := unix.PidfdOpen(id.PID, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) {
		return nil, fmt.Errorf("watch process %d: %w", id.PID, ErrGone)
	}
	if err != nil {
		return nil, fmt.Errorf("watch process %d: %w (berth needs Linux 5.10 or later)", id.PID, err)
	}
	file := os.NewFile(uintptr(fd), "pidfd")
	// The pid may have been reused before the pidfd was opened, but not since.
	if err := t.lives(id); err != nil {
		return nil, errors.Join(fmt.Errorf("watch %w", err), file.Close())
	}
	conn, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watch process %d: %w", id.PID, err), file.Close())
	}
	var over atomic.Bool
	go func() {
		if conn.Read(exited) == nil { // an error means that stop closed the file
			by := t.endedBy(id, conn)
			if !over.Swap(true) {
				ended(by != 0)
			}
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

// endedBy returns the signal that ended the process of a pidfd, or 0. The process is a
// zombie, whose status is in its stat file, until its parent has waited for it; from then
// on the pidfd tells it (PIDFD_GET_INFO, Linux 6.15), which is why that is asked first
// and last.
func (t Table) endedBy(id ID, pidfd syscall.RawConn) syscall.Signal {
	if status, known := reapedStatus(pidfd); known {
		return signalOf(status)
	}
	if s, err := t.stat(id.PID); err == nil && s.start == id.Start && s.state == 'Z' {
		return signalOf(s.exit)
	}
	status, _ := reapedStatus(pidfd)
	return signalOf(status)
}

// reapedStatus returns how the process of a pidfd ended, if its parent has waited for it.
func reapedStatus(pidfd syscall.RawConn) (status int, known bool) {
	info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
	err := pidfd.Control(func(fd uintptr) {
		known = unix.IoctlPidfdInfo(int(fd), &info) == nil && info.Mask&unix.PIDFD_INFO_EXIT != 0
	})
	return int(info.Exit_code), known && err == nil
}

func signalOf(status int) syscall.Signal {
	if end := syscall.WaitStatus(status); end.Signaled() {
		return end.Signal()
	}
	return 0
}
