package mps

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	answersWithin = time.Second // or the client is killed
	mostOutput    = 4 << 10     // of a client; the rest is dropped
)

// runClient sends a command to a daemon through NVIDIA's client. It answers at
// once or not at all. The client opens what it finds in the user's folder, so
// it runs as the user too.
func runClient(ctx context.Context, d *daemon, command string) error {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	var out head
	cmd := exec.CommandContext(ctx, control)
	cmd.Env, cmd.Dir = environ(d.dir, d.uuid), "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(command+"\n"), &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: d.as}
	cmd.WaitDelay = time.Second // what it has started may keep its output open
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// head keeps the beginning of what is written to it.
type head []byte

func (h *head) Write(b []byte) (int, error) {
	*h = append(*h, b[:min(len(b), mostOutput-len(*h))]...)
	return len(b), nil
}
