package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/daemon"
	"github.com/berth-gpu/berth/internal/daemon/daemontest"
)

// bubble returns a world with its own clock, in which commands look at simulated
// devices through a real daemon.
func bubble(t *testing.T, out, errs *bytes.Buffer, width int) cli.Env {
	return cli.Env{Env: console.Env{
		Out: out, Err: errs, Getenv: func(string) string { return "" }, Now: time.Now,
		Terminal: func() (int, bool) { return width, width > 0 },
		Local: func(ctx context.Context, devices string) (*client.Client, func(), error) {
			settings, err := daemontest.Settings(t.TempDir(), daemontest.Options{Devices: devices})
			if err != nil {
				return nil, nil, err
			}
			return daemon.Local(context.WithoutCancel(ctx), settings, daemontest.Version)
		},
	}}
}

// run runs a command line for so long and then interrupts it.
func run(t *testing.T, env cli.Env, length time.Duration, args ...string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	return cli.Run(ctx, env, args)
}

func TestWatchElsewhereRepeatsBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, errs bytes.Buffer
		env := bubble(t, &out, &errs, 0)
		if code := run(t, env, 4500*time.Millisecond, "status", "--devices", "sim:4", "--watch", "2s"); code != 0 {
			t.Errorf("exit code %d: %s", code, errs.String())
		}
		if n := strings.Count(out.String(), "GPU  NAME"); n != 3 { // at 0, 2 and 4 s
			t.Errorf("%d blocks:\n%s", n, out.String())
		}
		if strings.Contains(out.String(), "\x1b") {
			t.Error("escape codes outside a terminal")
		}
		if !strings.HasPrefix(out.String(), "2000-01-01T00:00:00Z\n") {
			t.Errorf("no time in front:\n%s", out.String())
		}
	})
}

func TestWatchOnATerminalRedraws(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, errs bytes.Buffer
		env := bubble(t, &out, &errs, 80)
		if code := run(t, env, 1500*time.Millisecond, "status", "--devices", "sim:4", "--watch"); code != 0 {
			t.Errorf("exit code %d: %s", code, errs.String())
		}
		if strings.Count(out.String(), "\x1b[2J") != 1 || strings.Count(out.String(), "\x1b[H") != 2 || strings.Count(out.String(), "\x1b[J") != 2 {
			t.Errorf("not drawn twice in place: %q", out.String())
		}
	})
}

func TestWatchJSONIsOneObjectPerLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, errs bytes.Buffer
		env := bubble(t, &out, &errs, 0)
		run(t, env, 2500*time.Millisecond, "status", "--devices", "sim:4", "--watch=1s", "--json", "0")
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 3 || !strings.HasPrefix(lines[2], `{"device":{"uuid":"SIM-h200-0"`) {
			t.Errorf("lines %q", lines)
		}
	})
}

// A daemon that restarts is waited for, and said to be gone once.
func TestWatchWaitsForTheDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, errs bytes.Buffer
		began := time.Now()
		env := bubble(t, &out, &errs, 0)
		env.Local = func(context.Context, string) (*client.Client, func(), error) {
			c, err := client.New(client.Options{Transport: client.Through(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch time.Since(began) { // two requests are made at each second, at once
				case time.Second, 2 * time.Second, 4 * time.Second:
					http.Error(w, "restarting", http.StatusBadGateway)
					return
				}
				_ = json.NewEncoder(w).Encode(api.StatusAll{GPUs: []api.Status{{State: gpu.Optimal}}})
			}))})
			return c, func() {}, err
		}
		if code := run(t, env, 5500*time.Millisecond, "status", "--devices", "sim:4", "--watch"); code != 0 {
			t.Errorf("exit code %d", code)
		}
		if n := strings.Count(out.String(), "GPU  NAME"); n != 3 {
			t.Errorf("%d blocks of 6, three of which could not be asked for", n)
		}
		if n := strings.Count(errs.String(), "waiting for it to come back"); n != 2 {
			t.Errorf("said %d times, want once per outage:\n%s", n, errs.String())
		}
	})
}

func TestWatchStopsAtAProblem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, errs bytes.Buffer
		env := bubble(t, &out, &errs, 0)
		if code := run(t, env, time.Hour, "status", "--devices", "sim:4", "--watch", "9"); code != 4 {
			t.Errorf("exit code %d", code)
		}
	})
}

// Following ends when it is interrupted, and shows each event once.
func TestFollowEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, errs bytes.Buffer
		env := bubble(t, &out, &errs, 0)
		if code := run(t, env, time.Minute, "events", "--devices", "sim:2", "--follow", "--code", "device_found"); code != 0 {
			t.Errorf("exit code %d: %s", code, errs.String())
		}
		if n := strings.Count(out.String(), "\n"); n != 2 {
			t.Errorf("%d events, want each once:\n%s", n, out.String())
		}
	})
}

// Whatever waits for its standard input ends with the first signal.
func TestInterruptedWhileReading(t *testing.T) {
	for _, line := range []string{
		"plan -", "config check -", "import llama-swap -", "token create ci --role user --stdin", "restore --state-dir FOLDER -",
	} {
		t.Run(line, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out, errs bytes.Buffer
				env := bubble(t, &out, &errs, 0)
				in, end := io.Pipe()
				env.In = in
				env.Checker = func() (console.Checker, error) { return daemon.Check, nil }
				ctx, signal := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { signal(&console.SignalError{Signal: syscall.SIGTERM}) })
				time.AfterFunc(time.Minute, func() { _ = end.Close() })
				folder := filepath.Join(t.TempDir(), "state")
				begun := time.Now()
				code := cli.Run(ctx, env, strings.Fields(strings.Replace(line, "FOLDER", folder, 1)))
				if took := time.Since(begun); code != 143 || took != time.Second {
					t.Errorf("exit code %d after %s: %s", code, took, errs.String())
				}
				if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("it left its folder: %v", err)
				}
				_ = end.Close()
			})
		})
	}
}
