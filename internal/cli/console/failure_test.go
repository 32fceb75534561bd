package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
)

// An older daemon does not know the route of a newer command.
func TestOlderDaemon(t *testing.T) {
	var errs bytes.Buffer
	con := &Console{started: true, Env: Env{Err: &errs}}
	con.Report(&api.Problem{Status: 404, Code: "unknown_path", Detail: "There is nothing at /api/whoami."})
	if want := "berth: There is nothing at /api/whoami.\n  the daemon is older than this command: restart it after an upgrade\n"; errs.String() != want {
		t.Errorf("said %q, want %q", &errs, want)
	}
}

func TestExitCodes(t *testing.T) {
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	terminated, end := context.WithCancelCause(t.Context())
	end(&SignalError{syscall.SIGTERM})
	unanswered := fmt.Errorf("x: %w", &client.NoAnswerError{Err: context.DeadlineExceeded})
	for _, c := range []struct {
		name    string
		ctx     context.Context
		started bool
		err     error
		want    int
	}{
		{"done", t.Context(), true, nil, 0},
		{"failed", t.Context(), true, errors.New("x"), 1},
		{"reported", t.Context(), true, ErrReported, 1},
		{"before the command", t.Context(), false, errors.New("unknown flag"), 2},
		{"in the command", t.Context(), true, Usage("x"), 2},
		{"no daemon", t.Context(), true, &client.NoDaemonError{}, 3},
		{"refused", t.Context(), true, &api.Problem{Status: 404}, 4},
		{"the daemon failed", t.Context(), true, &api.Problem{Status: 500}, 1},
		{"interrupted", interrupted, true, context.Canceled, 130},
		{"terminated", terminated, true, context.Cause(terminated), 143},
		{"refused and shown", t.Context(), true, ErrRefused, 4},
		{"the daemon hangs", t.Context(), true, unanswered, 3},
		{"something else took too long", t.Context(), true, context.DeadlineExceeded, 1},
		{"canceled by itself", t.Context(), true, context.Canceled, 1},
	} {
		con := &Console{started: c.started}
		if got := con.ExitCode(c.ctx, c.err); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
