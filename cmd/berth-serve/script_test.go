package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/berth-gpu/berth/client"
)

func TestMain(m *testing.M) {
	if strings.HasPrefix(filepath.Base(os.Args[0]), guestPrefix) {
		runGuest()
		return
	}
	if strings.HasPrefix(filepath.Base(os.Args[0]), modelPrefix) {
		runModel()
		return
	}
	testscript.Main(heeding{m}, map[string]func(){"berth": mainAs, "session": session, "browser": browser, "batchworker": batchWorker, "embedder": runGuest, "render_farm": runGuest})
}

// heeding runs the tests so that the programs that they start have their signals,
// also where nohup or a shell's background has the tests ignore them: what is handled
// here is at its default there.
type heeding struct{ *testing.M }

func (h heeding) Run() int {
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} { // Go takes over the others anyway
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	return h.M.Run()
}

// TestScripts runs the whole binary, daemon and commands, in each script's own
// folder. Beside the usual commands there are
//
//	ready                      wait until the daemon that was started says that it is
//	seen CODE LEASE            wait for an event
//	exits CODE COMMAND...      the command must end with this code
//	until CODE COMMAND...      the command must end with this code, sooner or later
//	spoil FILE TEXT            damage a byte of the text where it stands in the file
//	as UID                     the commands that follow run as this user
//
// and the conditions [root] and [nodaemon]: no daemon has the socket of the machine.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup:               setup,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"ready": ready, "seen": seen, "exits": exits, "until": until, "spoil": spoil, "as": as,
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "root":
				return os.Geteuid() == 0, nil
			case "nodaemon":
				_, err := os.Stat("/run/berth/berth.sock")
				return err != nil, nil
			}
			return false, fmt.Errorf("there is no condition %q", name)
		},
	})
}

// asUser is the variable that says which user a command runs as. The command
// becomes that user itself: others cannot read the folder that its binary is in.
const asUser = "BERTH_TEST_UID"

// mainAs runs main as the user that the script says.
func mainAs() {
	if uid, err := strconv.Atoi(os.Getenv(asUser)); err == nil && uid != os.Getuid() {
		for _, become := range []func() error{
			func() error { return syscall.Setgroups(nil) },
			func() error { return syscall.Setresgid(uid, uid, uid) },
			func() error { return syscall.Setresuid(uid, uid, uid) },
		} {
			if err := become(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
	}
	main()
}

func as(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: as UID")
	}
	ts.Setenv(asUser, args[0])
}

// patience is how long a test waits for another process before it fails: that long
// nothing takes, however busy the machine is.
const patience = 5 * time.Minute

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
	if err := os.Chmod(dir, 0o755); err != nil { // for scripts with several users
		return err
	}
	env.Values[notified{}] = notify
	env.Setenv("NOTIFY_SOCKET", filepath.Join(dir, "n"))
	env.Setenv("BERTH_SOCKET", filepath.Join(dir, "s"))
	env.Setenv("BERTH_STATE_DIR", filepath.Join(env.WorkDir, "state"))
	env.Setenv("BERTH_LISTEN", "127.0.0.1:0")
	env.Setenv("HOME", env.WorkDir)
	python, err := filepath.Abs(filepath.Join("..", "..", "python")) // the package, for workers
	if err != nil {
		return err
	}
	env.Setenv("PYTHONPATH", python)
	env.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	if own, rest, ok := strings.Cut(env.Getenv("PATH"), ":"); ok { // own: the folder with the commands of TestMain
		env.Setenv("PATH", own+":"+pythonDir()+":"+rest)
	}
	env.Setenv("GORACE", "atexit_sleep_ms=0") // else every command takes a second under the race detector
	return nil
}

// pythonDir returns the folder of the interpreter that python3 starts. Where python3
// is a script that looks for one, each of the many workers would wait for that script.
var pythonDir = sync.OnceValue(func() string {
	path, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		return "/usr/bin" // the scripts skip what needs Python
	}
	return filepath.Dir(string(path))
})

func ready(ts *testscript.TestScript, _ bool, _ []string) {
	notify := ts.Value(notified{}).(*net.UnixConn)
	ts.Check(notify.SetReadDeadline(time.Now().Add(patience)))
	message := make([]byte, 4096)
	for {
		n, err := notify.Read(message)
		if err != nil {
			ts.Fatalf("the daemon does not say that it is ready: %v", err)
		}
		if strings.Contains(string(message[:n]), "READY=1") {
			return
		}
	}
}

// seen waits for an event about a lease. Those that have been count too.
func seen(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: seen CODE LEASE")
	}
	daemon, err := client.New(client.Options{Socket: ts.Getenv("BERTH_SOCKET")})
	ts.Check(err)
	defer daemon.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for event, err := range daemon.Events(ctx, 0, true) {
		if err != nil {
			ts.Fatalf("wait for %s of %s: %v", args[0], args[1], err)
		}
		if string(event.Code) == args[0] && event.Lease == args[1] {
			return
		}
	}
	ts.Fatalf("the events end without %s of %s", args[0], args[1])
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	if code := exitCode(ts, args[1:]); code != args[0] {
		ts.Fatalf("exit code %s, want %s", code, args[0])
	}
}

// until is for what the daemon does by itself, a moment after its cause.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until CODE COMMAND...")
	}
	for end := time.Now().Add(patience); exitCode(ts, args[1:]) != args[0]; {
		if time.Now().After(end) {
			ts.Fatalf("%s does not end with %s, even after %s", strings.Join(args[1:], " "), args[0], patience)
		}
		time.Sleep(20 * time.Millisecond) // what it waits for needs the processor, too
	}
}

func exitCode(ts *testscript.TestScript, args []string) string {
	err := ts.Exec(args[0], args[1:]...)
	code := 0
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		code = failed.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	return strconv.Itoa(code)
}

func spoil(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: spoil FILE TEXT")
	}
	path := ts.MkAbs(args[0])
	data, err := os.ReadFile(path)
	ts.Check(err)
	at := bytes.Index(data, []byte(args[1]))
	if at < 0 {
		ts.Fatalf("%s is not in %s", args[1], args[0])
	}
	data[at] ^= 0xff
	ts.Check(os.WriteFile(path, data, 0o600))
}
