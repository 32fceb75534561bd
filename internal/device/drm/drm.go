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

import "path/filepath"

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
