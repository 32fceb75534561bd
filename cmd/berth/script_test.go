package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"berth": main})
}

// TestScripts runs the whole binary, daemon and commands, in each script's own
// folder. "ready" waits until the daemon that was started says that it is.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup:               setup,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"ready": ready, "exits": exits,
		},
	})
}

// notified is the key under which a script keeps its notify socket.
type notified struct{}

// setup gives the script a socket, a state folder and, as systemd would, an
// address where the daemon says that it is ready: no test has to guess when.
func setup(env *testscript.Env) error {
	dir, err := os.MkdirTemp("", "b") // short: the path of a socket is limited
	if err != nil {
		return err
	}
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "n"), Net: "unixgram"})
	if err != nil {
		return err
	}
	env.Defer(func() {
		_ = notify.Close()
		_ = os.RemoveAll(dir)
	})
	env.Values[notified{}] = notify
	env.Setenv("NOTIFY_SOCKET", filepath.Join(dir, "n"))
	env.Setenv("BERTH_SOCKET", filepath.Join(dir, "s"))
	env.Setenv("BERTH_STATE_DIR", filepath.Join(env.WorkDir, "state"))
	env.Setenv("BERTH_LISTEN", "127.0.0.1:0")
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("GORACE", "atexit_sleep_ms=0") // else every command takes a second under the race detector
	return nil
}

func ready(ts *testscript.TestScript, _ bool, _ []string) {
	notify := ts.Value(notified{}).(*net.UnixConn)
	ts.Check(notify.SetReadDeadline(time.Now().Add(30 * time.Second)))
	message := make([]byte, 4096)
	for {
		n, err := notify.Read(message)
		ts.Check(err)
		if strings.Contains(string(message[:n]), "READY=1") {
			return
		}
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
