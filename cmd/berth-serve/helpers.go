package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/berth-gpu/berth/internal/device/check"
	"github.com/berth-gpu/berth/internal/device/nvml"
	"github.com/berth-gpu/berth/internal/enforce/pace"
	"github.com/berth-gpu/berth/internal/process/minder"
)

// proveCommand makes this program the helper process that checks a device, or moves the
// memory of processes. It is not a command for people: the daemon speaks to it.
const proveCommand = "prove"

// prove does what the daemon asks on standard input, and returns the exit code.
func prove() int {
	err := check.Process{
		In: os.Stdin, Out: os.Stdout, Gone: func() { os.Exit(1) },
		Limit: check.Confine, Open: check.OpenCard, Checkpoints: check.OpenCheckpoints, Gauges: gauges,
	}.Serve()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// gauges returns a reader of a device through NVML, or nil if there is none.
func gauges(uuid string) check.Gauges {
	g, err := nvml.OpenGauges(uuid)
	if err != nil {
		return nil
	}
	return g
}

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
	self := ownProgram()
	if self == "" {
		return nil
	}
	return []string{self, guardian}
}

// minderProgram returns the program that becomes the minders of jobs: berth, if it is beside
// this program and of the same version, else this program. A minder lives as long as its
// job; berth starts in a fifth of the time, and needs a fraction of the memory.
func minderProgram() string {
	self := ownProgram()
	small := filepath.Join(filepath.Dir(self), "berth")
	// What it says at first is its name and its version.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	said, err := exec.CommandContext(ctx, small, "version").Output()
	if words := strings.Fields(string(said)); err != nil || len(words) < 2 || words[1] != version {
		return self
	}
	return small
}

// ownProgram returns the path of this program, or "" if that is not known.
func ownProgram() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	return self
}

// readLog reads a log for the daemon, and returns the exit code.
func readLog() int {
	if err := minder.ServeLog(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "berth-serve readlog:", err)
		return 1
	}
	return 0
}
