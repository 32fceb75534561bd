//go:build !cgo

// Package inherited tells which signals were ignored and which files closed when this
// process began; without C, that is not known.
package inherited

import "syscall"

// Ignored returns nil: without C, the signals that were ignored when this process began
// are unknown.
func Ignored() []syscall.Signal { return nil }

// Closed returns nil: without C, the files that were closed when this process began are
// unknown.
func Closed() []int { return nil }
