// Package drm reads what Linux says about graphics cards without a library of
// their vendor: the files of the card and of its sensors in /sys, the open
// files of processes in /proc, and the log of the kernel.
//
// Backend reads the GPUs of a vendor whose driver is part of the kernel. What sets the
// drivers apart is in a Table, one for each vendor.
//
// The package keeps nothing open between two readings. A file that is gone, is a
// directory, or holds no number is an error of that file alone; the backend decides
// whether the card as a whole has stopped answering.
//
// A read can hang as long as the driver does. No lock is held meanwhile, and no device
// reads a file of another one.
package drm

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Root is the directory that has sys, proc, dev and usr in it. It is "/", except in
// tests, which point it at written trees.
type Root string

// Path returns a path below the root.
func (r Root) Path(parts ...string) string {
	if r == "" {
		r = "/"
	}
	return filepath.Join(append([]string{string(r)}, parts...)...)
}

// Log returns the path of the kernel's log.
func (r Root) Log() string { return r.Path("dev/kmsg") }

// mostText is more than a file of /sys can hold, which is one page.
const mostText = 4096

// errNoNumber means that a file holds something other than a number.
var errNoNumber = errors.New("no number")

// errNoSensors means that a card shows no sensors.
var errNoSensors = &fs.PathError{Op: "open", Path: "hwmon", Err: fs.ErrNotExist}

// Read reads a small file into space, and returns the part of space that holds text. It
// drops what does not fit. Read takes three system calls and allocates nothing.
func Read(path string, space []byte) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	n := 0
	for n < len(space) {
		got, err := unix.Read(fd, space[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		if got == 0 {
			break
		}
		n += got
	}
	return space[:n], nil
}

// Text returns the contents of a small file without the space around it.
func Text(parts ...string) (string, error) {
	var space [mostText]byte
	text, err := Read(filepath.Join(parts...), space[:])
	if err != nil {
		return "", err
	}
	return string(bytes.TrimSpace(text)), nil
}

// Number reads a whole number from a file.
func Number(parts ...string) (int64, error) {
	var space [64]byte
	path := filepath.Join(parts...)
	text, err := Read(path, space[:])
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", path, errNoNumber)
	}
	return n, nil
}

// Write writes a whole number into an existing file.
func Write(n int64, parts ...string) error {
	path := filepath.Join(parts...)
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_TRUNC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, strconv.AppendInt(nil, n, 10)); err != nil {
		return &fs.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}

// Exists reports whether a path exists.
func Exists(parts ...string) bool {
	var s unix.Stat_t
	return unix.Stat(filepath.Join(parts...), &s) == nil
}

// Denied reports whether an error means that berth lacks the permission.
func Denied(err error) bool { return errors.Is(err, fs.ErrPermission) }
