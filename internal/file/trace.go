package file

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"
)

// A trace is a link beside the socket of a daemon that leads to its state folder. It stays
// when the daemon ends: commands learn from it which folder was that daemon's, and, by its
// age, that the next daemon may be about to start.

// TracePath returns the path of the trace beside a socket.
func TracePath(socket string) string { return socket + ".state" }

// LeaveTrace makes the trace of a daemon, or makes it new.
func LeaveTrace(socket, state string) error {
	path := TracePath(socket)
	next := path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(state, next); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// Traced returns the state folder of the daemon that used a socket last, or false if
// nobody knows: there is no trace, or it is of another user than root and this one, who
// could lead a command to any folder.
func Traced(socket string) (state string, known bool) {
	info, err := os.Lstat(TracePath(socket))
	if err != nil {
		return "", false
	}
	about, is := info.Sys().(*syscall.Stat_t)
	if !is || about.Uid != 0 && int(about.Uid) != os.Geteuid() {
		return "", false
	}
	state, err = os.Readlink(TracePath(socket))
	return state, err == nil
}

// TracedSince returns when the daemon that used a socket last began or ended, or the zero
// time if nobody knows.
func TracedSince(socket string) time.Time {
	info, err := os.Lstat(TracePath(socket))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// SinceBoot reports whether a file was written since the machine started. If nobody knows
// when that was, it was.
func SinceBoot(path string) bool {
	info, err := os.Lstat(path)
	if err != nil {
		return true
	}
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return true
	}
	seconds, _, _ := strings.Cut(string(text), " ")
	up, err := time.ParseDuration(seconds + "s")
	return err != nil || time.Since(info.ModTime()) <= up
}
