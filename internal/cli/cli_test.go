package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/doctor"
	"github.com/berth-gpu/berth/internal/term"
)

var update = flag.Bool("update", false, "write what the commands print into the scripts")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"berth": func() {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		code := Run(ctx, scriptEnv(), os.Args[1:])
		stop()
		os.Exit(code)
	}})
}

// scriptEnv is the world of a command in a script: the real one, but for the
// clock, the terminal (WIDTH) and everything that needs a daemon's inside.
func scriptEnv() Env {
	return Env{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Environ: os.Environ, CPUs: 2, Version: "1.2.3",
		Now: func() time.Time { return testNow },
		Terminal: func() (int, bool) {
			width, err := strconv.Atoi(os.Getenv("WIDTH"))
			return width, err == nil
		},
		Serve: func(_ context.Context, o ServeOptions) error {
			_, err := fmt.Printf("config %q flags %q json %v\n", o.Config, o.Flags, o.JSON)
			return err
		},
		Local: func(_ context.Context, devices string) (*client.Client, func(), error) {
			if devices == "bad" {
				return nil, nil, errors.New("there is no such backend")
			}
			c, err := client.New(client.Options{Transport: client.Through(newFakeDaemon("local" + devices))})
			return c, func() {}, err
		},
		Settings: func(file string) (*config.Settings, error) {
			text, err := os.ReadFile(file)
			if file != "" && err != nil {
				return nil, err
			}
			layer, _ := config.ParseYAML(file, text)
			return config.Merge(config.Paths(filepath.Join(os.Getenv("WORK"), "state"), "/run/berth/berth.sock"), layer)
		},
		Probe: func(context.Context) []doctor.Finding {
			return []doctor.Finding{{Topic: "nvml", Grade: doctor.Notice, Text: "libnvidia-ml.so.1 was not found", Next: "install the driver"}}
		},
	}
}

// TestScripts runs every script against a small daemon on $BERTH_SOCKET.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		UpdateScripts:       *update,
		Setup: func(env *testscript.Env) error {
			socket, stop, err := serveFake()
			if err != nil {
				return err
			}
			env.Defer(stop)
			env.Setenv("BERTH_SOCKET", socket)
			env.Setenv("TERM", "xterm")
			env.Setenv("GORACE", "atexit_sleep_ms=0") // else every command takes a second under the race detector
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "tries": tries},
	})
}

// exits is "exits CODE COMMAND…": the command must end with this code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		code = failed.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// tries is "tries COMMAND…": the command may end with any code.
func tries(ts *testscript.TestScript, _ bool, args []string) {
	_ = ts.Exec(args[0], args[1:]...)
}

func serveFake() (socket string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "b") // short: the path of a socket is limited
	if err != nil {
		return "", nil, err
	}
	socket = filepath.Join(dir, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: newFakeDaemon("gpubox")}
	go func() { _ = server.Serve(listener) }()
	return socket, func() {
		_ = server.Close()
		_ = os.RemoveAll(dir)
	}, nil
}

// TestHelp holds every command to what a newcomer needs, at 80 columns.
func TestHelp(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		t.Run(strings.ReplaceAll(cmd.CommandPath(), " ", "/"), func(t *testing.T) {
			if cmd.Short == "" || cmd.Example == "" {
				t.Error("no short description, or no example")
			}
			if cmd.InheritedFlags().Lookup("json") == nil && cmd.PersistentFlags().Lookup("json") == nil {
				t.Error("no --json")
			}
			var b strings.Builder
			cmd.SetOut(&b)
			if err := cmd.Help(); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(b.String()) {
				if term.Columns(strings.TrimRight(line, "\n")) > 80 {
					t.Errorf("more than 80 columns: %s", line)
				}
			}
		})
		for _, below := range cmd.Commands() {
			check(below)
		}
	}
	check(New(scriptEnv()))
}
