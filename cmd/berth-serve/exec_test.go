package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
)

// launcher is a way to start a program: bare, or under berth exec.
type launcher struct {
	name string
	with []string // the words before the program
	env  []string
}

// launchers starts a daemon with one simulated GPU, and returns the ways to
// start a program, the bare one first.
func launchers(t *testing.T) ([]launcher, *client.Client) {
	t.Helper()
	dir := shortDir(t)
	berth, notify := berthIn(t, dir), notifyIn(t, dir)
	env := append(os.Environ(), "BERTH_SOCKET="+filepath.Join(dir, "s"), "GORACE=atexit_sleep_ms=0", "HOME="+dir)
	daemon := exec.Command(berth, "serve", "--devices", "sim:1", "--listen", "", "--state-dir", filepath.Join(dir, "state"))
	daemon.Env = append(env, "NOTIFY_SOCKET="+filepath.Join(dir, "n"), "BERTH_GPU_MAX_PIPELINES=4")
	var log bytes.Buffer
	daemon.Stderr = &log
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = daemon.Process.Signal(os.Interrupt)
		if err := daemon.Wait(); err != nil {
			t.Errorf("the daemon ended with %v:\n%s", err, log.Bytes())
		}
	})
	if err := notify.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := notify.Read(make([]byte, 4096)); err != nil {
		t.Fatalf("the daemon is not ready: %v\n%s", err, log.Bytes())
	}
	c, err := client.New(client.Options{Socket: filepath.Join(dir, "s")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return []launcher{
		{"bare", nil, env},
		{"exec", []string{berth, "exec", "--memory", "1GiB", "--"}, env},
	}, c
}

func (l launcher) command(program ...string) *exec.Cmd {
	words := append(append([]string{}, l.with...), program...)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = l.env
	return cmd
}

// ending is how a program ended, in words.
func ending(err error) string {
	failed := (*exec.ExitError)(nil)
	switch {
	case err == nil:
		return "exit 0"
	case !errors.As(err, &failed):
		return err.Error()
	}
	status := failed.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return "killed by " + status.Signal().String()
	}
	return fmt.Sprintf("exit %d", status.ExitStatus())
}

// sameForAll runs something in every way, and holds the results against that of
// the bare program.
func sameForAll(t *testing.T, ways []launcher, run func(t *testing.T, l launcher) string) {
	t.Helper()
	bare := run(t, ways[0])
	for _, l := range ways[1:] {
		if got := run(t, l); got != bare {
			t.Errorf("%s:\n%s\nbare:\n%s", l.name, got, bare)
		}
	}
}

// inside is what a program finds around it, without what differs by chance.
const inside = `
grep -E '^(SigBlk|SigIgn|SigCgt|ShdPnd):' /proc/self/status
ls /proc/self/fd | wc -l
ulimit -n; ulimit -c; umask; nice; pwd
ps -o sid=,pgid= -p $$ | wc -w
trap
`

func TestNothingOfOursIsLeftInTheProgram(t *testing.T) {
	ways, _ := launchers(t)
	for name, prepare := range map[string]string{
		"plain":                                  "",
		"under nohup":                            "trap '' HUP; ",
		"in the background, without job control": "trap '' INT QUIT; ",
		"with pipes that break silently":         "trap '' PIPE; ",
		"with signals of terminals ignored":      "trap '' TSTP TTIN TTOU; ",
		"with a low limit of files":              "ulimit -Sn 64; ",
		"with another umask":                     "umask 077; ",
		"with more files open":                   "exec 7</dev/null; ",
	} {
		t.Run(name, func(t *testing.T) {
			sameForAll(t, ways, func(t *testing.T, l launcher) string {
				words := append([]string{"sh", "-c", prepare + `exec "$@"`, "sh"}, l.with...)
				cmd := exec.Command(words[0], append(words[1:], "sh", "-c", inside)...)
				cmd.Env = l.env
				out, err := cmd.CombinedOutput()
				return string(out) + ending(err)
			})
		})
	}
}

func TestSignals(t *testing.T) {
	ways, c := launchers(t)
	for name, test := range map[string]struct {
		script string
		signal syscall.Signal
	}{
		"an interrupt":                         {"echo ready; exec sleep 300", syscall.SIGINT},
		"a request to end":                     {"echo ready; exec sleep 300", syscall.SIGTERM},
		"the end of the terminal":              {"echo ready; exec sleep 300", syscall.SIGHUP},
		"a kill":                               {"echo ready; exec sleep 300", syscall.SIGKILL},
		"one that it has a use for":            {`trap "echo caught; exit 3" USR1; echo ready; while :; do sleep 0.01; done`, syscall.SIGUSR1},
		"a request that it takes its time for": {`trap "echo bye; exit 0" TERM; echo ready; while :; do sleep 0.01; done`, syscall.SIGTERM},
	} {
		t.Run(name, func(t *testing.T) {
			sameForAll(t, ways, func(t *testing.T, l launcher) string {
				cmd := l.command("sh", "-c", test.script)
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				reader := bufio.NewReader(out)
				if line, err := reader.ReadString('\n'); line != "ready\n" {
					t.Fatalf("it said %q, %v", line, err)
				}
				if err := cmd.Process.Signal(test.signal); err != nil {
					t.Fatal(err)
				}
				rest, _ := io.ReadAll(reader)
				return string(rest) + ending(cmd.Wait())
			})
		})
	}
	// Whatever ended them, their leases are gone.
	look(t, c, "no lease", func(all api.Leases) bool { return len(all.Leases) == 0 })
}

func TestPipes(t *testing.T) {
	ways, _ := launchers(t)
	for name, line := range map[string]string{
		"in the middle":                 `printf 'b\na\n' | "$@" sort | cat`,
		"with a reader who has enough":  `"$@" yes | head -n 2; echo "yes ended with ${PIPESTATUS[0]}"`,
		"with what is written to error": `"$@" sh -c 'echo out; echo err >&2' 2>&1 >/dev/null | cat`,
		"with nothing to read":          `"$@" cat </dev/null; echo $?`,
		"with closed outputs":           `"$@" sh -c 'echo x' >&- 2>&-; echo $?`,
	} {
		t.Run(name, func(t *testing.T) {
			sameForAll(t, ways, func(t *testing.T, l launcher) string {
				with := l.with
				if with == nil {
					with = []string{"env"}
				}
				cmd := exec.Command("bash", append([]string{"-c", line, "bash"}, with...)...)
				cmd.Env = l.env
				out, err := cmd.CombinedOutput()
				return string(out) + ending(err)
			})
		})
	}
}

// terminal opens a terminal: what is typed goes into keyboard.
func openTerminal(t *testing.T) (keyboard, screen *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no terminals here: %v", err)
	}
	t.Cleanup(func() { _ = keyboard.Close() })
	if err := unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	screen, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	return keyboard, screen
}

// session is a shell of one command: it runs it in the foreground of its
// terminal, and says on standard error how that ended or that it was stopped.
func session() {
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Foreground: true, Ctty: 0}
	if err := cmd.Start(); err != nil {
		fmt.Fprint(os.Stderr, err)
		return
	}
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(cmd.Process.Pid, &status, unix.WUNTRACED, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
	switch {
	case status.Stopped():
		fmt.Fprint(os.Stderr, "stopped by ", status.StopSignal())
	case status.Signaled():
		fmt.Fprint(os.Stderr, "killed by ", status.Signal())
	default:
		fmt.Fprint(os.Stderr, "exit ", status.ExitStatus())
	}
}

// At a terminal, what is typed reaches the program: an interrupt ends it, a
// stop stops it.
func TestTerminal(t *testing.T) {
	ways, _ := launchers(t)
	for keys, want := range map[string]string{
		"\x03": "killed by interrupt", "\x1c": "killed by quit", "\x1a": "stopped by stopped", "\x04": "exit 0",
	} {
		t.Run(want, func(t *testing.T) {
			sameForAll(t, ways, func(t *testing.T, l launcher) string {
				keyboard, screen := openTerminal(t)
				program := l.command("sh", "-c", "ulimit -c 0; tty >/dev/null && echo ready; exec cat")
				shell := exec.Command(sessionCommand(t), program.Args...)
				shell.Env = l.env
				var said bytes.Buffer
				shell.Stdin, shell.Stdout, shell.Stderr = screen, screen, &said
				shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
				if err := shell.Start(); err != nil {
					t.Fatal(err)
				}
				if line, err := bufio.NewReader(keyboard).ReadString('\n'); !strings.HasPrefix(line, "ready") {
					t.Fatalf("it said %q, %v", line, err)
				}
				if _, err := keyboard.WriteString(keys); err != nil {
					t.Fatal(err)
				}
				if err := shell.Wait(); err != nil || said.String() != want {
					t.Errorf("%s: %s, %v; want %s", l.name, said.String(), err, want)
				}
				return said.String()
			})
		})
	}
}

// sessionCommand is this binary under the name that makes it a session.
func sessionCommand(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "session")
	if err := os.Symlink(self, name); err != nil {
		t.Fatal(err)
	}
	return name
}

// Whoever is interrupted while waiting leaves the queue, and took nothing.
func TestInterruptedWhileWaiting(t *testing.T) {
	ways, c := launchers(t)
	all, err := c.StatusAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	holder, err := c.Hold(t.Context(), api.LeaseRequest{ID: "all of it", Memory: all.GPUs[0].Device.MemoryTotal - 2048})
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		for _, l := range ways[1:] {
			words := append([]string{"exec", "--memory", "10GiB", "--timeout", "10m", "--name", "waiter", "--"}, "touch", filepath.Join(t.TempDir(), "ran"))
			cmd := exec.Command(l.with[0], words...)
			cmd.Env = l.env
			var told bytes.Buffer
			cmd.Stderr = &told
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			queue(t, c, 1)
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			got := ending(cmd.Wait())
			if want := map[syscall.Signal]string{
				syscall.SIGINT: "exit 130", syscall.SIGTERM: "exit 143", syscall.SIGKILL: "killed by killed",
			}[signal]; got != want {
				t.Errorf("%s: %v: %s, want %s\n%s", l.name, signal, got, want, told.Bytes())
			}
			queue(t, c, 0)
			if _, err := os.Stat(words[len(words)-1]); err == nil {
				t.Error("the program ran")
			}
		}
	}
	if held, err := c.Leases(t.Context()); err != nil || len(held.Leases) != 1 {
		t.Errorf("leases are %+v, %v", held, err)
	}
}

// queue waits until so many requests wait.
func queue(t *testing.T, c *client.Client, n int) {
	t.Helper()
	look(t, c, fmt.Sprint(n, " requests"), func(all api.Leases) bool { return len(all.Waiting) == n })
}

// look waits until leases and requests are as they should be.
func look(t *testing.T, c *client.Client, what string, good func(api.Leases) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		all, err := c.Leases(ctx)
		if err != nil {
			t.Fatalf("wait for %s: %v", what, err)
		}
		if good(all) {
			return
		}
	}
}

// A signal that is ignored does not end the waiting either.
func TestIgnoredWhileWaiting(t *testing.T) {
	ways, c := launchers(t)
	all, err := c.StatusAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range ways[1:] {
		holder, err := c.Hold(t.Context(), api.LeaseRequest{ID: "all of it", Memory: all.GPUs[0].Device.MemoryTotal - 2048})
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sh", "-c", `trap '' INT TERM; exec "$@"`, "sh", l.with[0], "exec", "--memory", "10GiB", "--timeout", "10m", "--", "echo", "ran")
		cmd.Env = l.env
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		queue(t, c, 1)
		for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
		}
		holder.Close()
		if got := ending(cmd.Wait()); got != "exit 0" || !strings.HasSuffix(out.String(), "ran\n") {
			t.Errorf("%s: %s\n%s", l.name, got, out.Bytes())
		}
		look(t, c, "no lease", func(all api.Leases) bool { return len(all.Leases) == 0 })
	}
}

// A daemon that is there and does not answer is told of, and not waited for.
func TestDaemonThatHangs(t *testing.T) {
	dir := shortDir(t)
	berth, socket := berthIn(t, dir), filepath.Join(dir, "s")
	hung, err := net.Listen("unix", socket) // connections are made, and nobody takes them
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hung.Close() })
	cmd := exec.Command(berth, "exec", "--timeout", "1s", "--", "echo", "ran")
	cmd.Env = append(os.Environ(), "BERTH_SOCKET="+socket, "BERTH_PATIENCE=1")
	out, err := cmd.CombinedOutput()
	if got := ending(err); got != "exit 3" || !strings.Contains(string(out), "no answer within 1s") || !strings.Contains(string(out), "BERTH_PATIENCE") {
		t.Errorf("%s\n%s", got, out)
	}
}
