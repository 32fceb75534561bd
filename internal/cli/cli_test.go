package cli_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/docs"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli"
	"github.com/berth-gpu/berth/internal/cli/agents"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/top"
	"github.com/berth-gpu/berth/internal/cli/topics"
	"github.com/berth-gpu/berth/internal/cli/upkeep"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/daemon"
	"github.com/berth-gpu/berth/internal/daemon/daemontest"
	"github.com/berth-gpu/berth/internal/desk/doctor"
)

var update = flag.Bool("update", false, "write what the commands print into the scripts")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"berth": func() {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		code := cli.Run(ctx, scriptEnv(), os.Args[1:])
		stop()
		os.Exit(code)
	}})
}

// scriptEnv returns the world of a command in a script. It is the real one, but
// for the terminal (WIDTH), the drivers, and the daemon that serve would run.
func scriptEnv() cli.Env {
	work := os.Getenv("WORK")
	world := console.Env{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Environ: os.Environ(), CPUs: 2, Version: daemontest.Version, Now: time.Now,
		Terminal: func() (int, bool) {
			width, err := strconv.Atoi(os.Getenv("WIDTH"))
			return width, err == nil
		},
		Local: func(ctx context.Context, devices string) (*client.Client, func(), error) {
			if devices == "" {
				devices = "sim:1"
			}
			settings, err := daemontest.Settings(work, daemontest.Options{Devices: devices})
			if err != nil {
				return nil, nil, err
			}
			return daemon.Local(ctx, settings, daemontest.Version)
		},
		Checker: func() (console.Checker, error) { return daemon.Check, nil },
		Settings: func(file string) (*config.Settings, error) {
			return daemontest.Settings(work, daemontest.Options{Devices: "sim:1", File: file})
		},
	}
	daemon := upkeep.Daemon{
		Serve: func(_ context.Context, o upkeep.ServeOptions) error {
			_, err := fmt.Printf("config %q flags %q json %v\n", o.Config, o.Flags, o.JSON)
			return err
		},
		Probe: func(context.Context) []doctor.Finding {
			return []doctor.Finding{{Topic: "nvml", Grade: doctor.Notice, Text: "libnvidia-ml.so.1 was not found", Next: "install the driver"}}
		},
	}
	return cli.Env{Env: world, Daemon: daemon, Top: top.Run, Agents: agents.Serve, Topics: topics.In(docs.Pages())}
}

// TestScripts runs every command against real daemons in this process. Beside
// the usual commands there are
//
//	daemon DEVICES             start a daemon with these devices, after the one before has ended
//	seen CODE [LEASE]          wait for an event
//	exits CODE COMMAND...      the command must end with this code
//	tries COMMAND...           the command may end with any code
//	[nodaemon]                 no daemon has the socket of the machine
func TestScripts(t *testing.T) {
	self, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		UpdateScripts:       *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("BERTH_SOCKET", filepath.Join(env.WorkDir, "none.sock"))
			env.Setenv("XDG_RUNTIME_DIR", env.WorkDir)
			env.Setenv("USERNAME", self.Username)
			d := new(daemontest.Daemon)
			env.Values[running{}] = d
			env.Defer(func() {
				if d.Stop != nil {
					_ = d.Stop()
				}
			})
			env.Setenv("TERM", "xterm")
			env.Setenv("GORACE", "atexit_sleep_ms=0") // else every command takes a second under the race detector
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"daemon": startDaemon, "seen": seen, "exits": exits, "tries": tries},
		Condition: func(name string) (bool, error) {
			if name != "nodaemon" {
				return false, fmt.Errorf("there is no condition %s", name)
			}
			_, socket := config.DefaultPaths(true, os.Getenv)
			_, err := os.Stat(socket)
			return errors.Is(err, fs.ErrNotExist), nil
		},
	})
}

// running is the key under which a script keeps its daemon.
type running struct{}

func startDaemon(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: daemon DEVICES [FILE]")
	}
	last := ts.Value(running{}).(*daemontest.Daemon)
	if last.Stop != nil {
		ts.Check(last.Stop())
	}
	o := daemontest.Options{Devices: args[0], State: ts.MkAbs("daemon")}
	if len(args) > 1 {
		o.File = ts.MkAbs(args[1])
		text := strings.ReplaceAll(ts.ReadFile(args[1]), "$WORK", ts.Getenv("WORK"))
		ts.Check(os.Chmod(o.File, 0o600)) // one that others can read must have no secrets
		ts.Check(os.WriteFile(o.File, []byte(text), 0o600))
	}
	d, err := daemontest.Start(o)
	ts.Check(err)
	*last = *d
	ts.Setenv("BERTH_SOCKET", d.Socket)
	ts.Setenv("BERTH_PATIENCE", "300") // that long no answer takes, however busy the machine is
}

// seen waits for an event. One that has been counts too.
func seen(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: seen CODE [LEASE]")
	}
	c, err := client.New(client.Options{Socket: ts.Getenv("BERTH_SOCKET")})
	ts.Check(err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // that long nothing takes, however busy the machine is
	defer cancel()
	if _, err = daemontest.Await(ctx, c, gpu.EventFilter{Codes: []gpu.EventCode{gpu.EventCode(args[0])}, Leases: args[1:]}); err != nil {
		ts.Fatalf("wait for %s: %v", strings.Join(args, " of "), err)
	}
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
