//go:build cgo

// Package cexec is "berth exec" in C, which runs before Go does.
//
// A Go program of berth's size needs milliseconds until it has asked its first
// question, most of them for threads and tables that "berth exec" has no use
// for: it asks the daemon once and then is another program. So that command
// begins in C, as soon as the binary is loaded (exec.c). It handles the plain
// case alone, in which the lease is granted at once. Everything else, from a
// mistyped flag to a queue, it leaves untouched to the command in package cli,
// which does all of it, and asks again if no answer came (Unanswered).
//
// It pays: /bin/true, 250 times each in turns on a busy machine with two
// processors, takes 0.4 ms by itself, 1.2 ms under "berth exec" and 3.5 ms where
// the same program does it in Go (BERTH_EXEC_IN_GO=1), and 0.7 and 2.9 ms of the
// processors; "make bench-exec" repeats that. At most 2 ms more than by itself
// are allowed.
//
// The same moment is the only one to see which signals were ignored and which
// files closed when the process began, because Go takes them over.
package cexec

// #include "cexec.h"
import "C"

import (
	"syscall"
	"unsafe"
)

// Ignored lists the signals that were ignored when this process began.
func Ignored() []syscall.Signal {
	var list []syscall.Signal
	for n := 1; n <= 64; n++ {
		if C.berth_ignored>>(n-1)&1 == 1 {
			list = append(list, syscall.Signal(n))
		}
	}
	return list
}

// Closed lists those of the files 0, 1 and 2 that were closed when this process began. Go
// has opened something harmless in their places.
func Closed() []int {
	var list []int
	for fd := range 3 {
		if C.berth_closed>>fd&1 == 1 {
			list = append(list, fd)
		}
	}
	return list
}

// Unanswered reports whether this process has asked the daemon for its lease and got no
// answer. The lease may have been granted.
func Unanswered() bool { return C.berth_unanswered != 0 }

// Torch returns the version of PyTorch that a program would import, or "" if there is
// none. It looks into the folders of the program, of the environment of this process, and
// of the user.
func Torch(program string) string {
	name := C.CString(program)
	defer C.free(unsafe.Pointer(name))
	var version [32]C.char
	C.berth_torch(name, &version[0], C.size_t(len(version)))
	return C.GoString(&version[0])
}
