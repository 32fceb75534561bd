//go:build !cgo

// Package cexec is "berth exec" in C, which runs before Go does; without C
// there is none.
package cexec

import "syscall"

// Ignored returns nil: without C, the signals that were ignored when this process began
// are unknown.
func Ignored() []syscall.Signal { return nil }

// Closed returns nil: without C, the files that were closed when this process began are
// unknown.
func Closed() []int { return nil }

// Unanswered returns false: without C, nothing was asked before.
func Unanswered() bool { return false }

// Torch returns "": without C, it does not look for PyTorch.
func Torch(string) string { return "" }
