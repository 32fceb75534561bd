//go:build !cgo

// Package cexec is "berth exec" in C, which runs before Go does; without C
// there is none.
package cexec

import "syscall"

// Ignored lists the signals that were ignored when this process began; without
// C nobody knows.
func Ignored() []syscall.Signal { return nil }

// Closed lists those of the files 0, 1 and 2 that were closed when this process
// began; without C nobody knows.
func Closed() []int { return nil }

// Torch is the version of PyTorch that a program would import; without C it is
// not looked for.
func Torch(string) string { return "" }
