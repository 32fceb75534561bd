package minder

import (
	"context"
	"os/exec"
	"strings"
	"time"

	"github.com/berth-gpu/berth/internal/process/child"
)

// saidWithin is how long the machine may take to say something, as whether it is shutting
// down.
const saidWithin = 3 * time.Second

// shuttingDown reports whether the machine is shutting down, as far as systemd or the
// run level of System V says so.
func shuttingDown() bool {
	if said("systemctl", "is-system-running") == "stopping" {
		return true
	}
	level := strings.Fields(said("runlevel")) // the level before, and the one now
	return len(level) == 2 && (level[1] == "0" || level[1] == "6")
}

// said returns what a command prints. It is empty if there is no such command in the usual
// folders; PATH is that of the job.
func said(name string, arguments ...string) string {
	program, err := child.Program(name, child.PathOf(nil))
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), saidWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, arguments...)
	cmd.Env = []string{"PATH=" + child.PathOf(nil)}
	text, _ := cmd.Output() // both exit with an error for some answers
	return strings.TrimSpace(string(text))
}
