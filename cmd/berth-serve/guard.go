package main

import (
	"fmt"
	"os"

	"github.com/berth-gpu/berth/internal/enforce/pace"
)

// guardian is the argument that makes this program the guardian of stopped processes. The
// daemon starts it; people do not.
const guardian = "pacer"

// guard runs the guardian, and then ends this process.
func guard() {
	if err := pace.Guard(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "berth-serve pacer:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// guardianCommand returns the command that runs the guardian, or nil if this program does
// not know its own path.
func guardianCommand() []string {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{self, guardian}
}
