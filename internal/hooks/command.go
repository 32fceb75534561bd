package hooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/process"
)

// outputKept is how much of what a command writes is passed on.
const outputKept = 4 << 10

// command runs a program for every event. It is not run again when it fails:
// nobody knows what it has done by then.
type command struct {
	hook    Hook
	environ []string
	output  func(hook, output string)
}

// run makes one attempt.
func (c *command) run(ctx context.Context, e gpu.Event, body []byte) error {
	output := &beginning{}
	cmd := exec.Command(c.hook.Command[0], c.hook.Command[1:]...)
	cmd.Env = append(c.environ[:len(c.environ):len(c.environ)],
		"BERTH_EVENT_CODE="+string(e.Code), "BERTH_EVENT_SEVERITY="+string(e.Severity),
		"BERTH_EVENT_GPU="+e.GPU, "BERTH_EVENT_LEASE="+e.Lease, "BERTH_EVENT_TEXT="+strings.ReplaceAll(e.Text, "\x00", ""))
	cmd.Stdin = bytes.NewReader(append(body, '\n'))
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second // for something that left the group and holds on to the output
	err := finish(ctx, cmd)
	if text := output.String(); text != "" {
		c.output(c.hook.Name, text)
	}
	return err
}

// finish runs a command until it has ended or ctx has. What is left of its
// process group goes with it.
func finish(ctx context.Context, cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	process.SetOrdinary(pid)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
			continue
		}
	}()
	late := false
	select {
	case <-gone:
	case <-ctx.Done():
		late = true
	}
	// Until it is waited for, its number is that of no other process.
	_ = unix.Kill(-pid, unix.SIGKILL)
	<-gone
	switch err := cmd.Wait(); {
	case late:
		return errors.New("the command took longer than timeout_seconds and was killed")
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return fmt.Errorf("the command failed: %w", err)
	}
	return nil
}

// beginning keeps the beginning of what is written to it.
type beginning struct {
	kept []byte
	more bool
}

func (b *beginning) Write(p []byte) (int, error) {
	room := outputKept - len(b.kept)
	b.kept = append(b.kept, p[:min(room, len(p))]...)
	b.more = b.more || len(p) > room
	return len(p), nil
}

func (b *beginning) String() string {
	text := strings.ToValidUTF8(strings.TrimSpace(string(b.kept)), "\uFFFD")
	if b.more {
		text += " … and more"
	}
	return text
}
