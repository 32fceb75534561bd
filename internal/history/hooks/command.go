package hooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/process/child"
)

// also returns the codes of what happened with an event, separated by spaces.
func also(e gpu.Event) string {
	var list []string
	for _, code := range e.Also {
		list = append(list, string(code))
	}
	return strings.Join(list, " ")
}

// outputKept is the most bytes of a command's output that are passed on.
const outputKept = 4 << 10

// Commands runs programs for events.
type Commands struct {
	Environ []string                         // of the programs
	Output  func(hook string, output string) // gets the output of a program
}

// Call returns a function that runs a program for one event, with the event on its
// standard input, and waits until the program ends. It then kills the processes that the
// program started. A failure is final, because nobody knows what the program has done by
// then, unless the machine could not start the program.
func (c Commands) Call(hook string, command []string) Call {
	return func(ctx context.Context, e gpu.Event, body []byte) error {
		output := &child.Head{Limit: outputKept}
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Env = append(c.Environ[:len(c.Environ):len(c.Environ)],
			"BERTH_EVENT_CODE="+string(e.Code), "BERTH_EVENT_ALSO="+also(e), "BERTH_EVENT_SEVERITY="+string(e.Severity),
			"BERTH_EVENT_GPU="+e.GPU, "BERTH_EVENT_LEASE="+e.Lease, "BERTH_EVENT_TEXT="+strings.ReplaceAll(e.Text, "\x00", ""))
		cmd.Stdin = bytes.NewReader(append(body, '\n'))
		cmd.Stdout, cmd.Stderr = output, output
		err := child.Run(ctx, cmd, child.How{Ordinary: true}, 0)
		if text := output.String(); text != "" {
			c.Output(hook, text)
		}
		exit := (*exec.ExitError)(nil)
		switch {
		case err != nil && ctx.Err() != nil:
			return errors.New("the command took longer than timeout_seconds and was killed")
		case errors.As(err, &exit):
			return fmt.Errorf("the command failed: %w", err)
		case err != nil && cmd.Process == nil && !noProgram(err):
			return &passing{error: fmt.Errorf("the command could not be started: %w", err)}
		}
		return err
	}
}

// noProgram reports whether a command cannot be started because it is no program.
func noProgram(err error) bool {
	for _, no := range []error{exec.ErrNotFound, fs.ErrNotExist, fs.ErrPermission, unix.ENOEXEC, unix.E2BIG} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}
