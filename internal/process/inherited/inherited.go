//go:build cgo

// Package inherited tells which signals were ignored and which files closed when this
// process began.
//
// Go's runtime takes them over when it starts, so a few lines of C look at them as soon as
// the binary is loaded.
package inherited

// extern unsigned long long berth_ignored;
// extern unsigned berth_closed;
import "C"

import "syscall"

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
