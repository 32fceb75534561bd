package child_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/process/child"
)

// long is a grace that no test waits for.
const long = time.Hour

// family is a shell script whose processes all hold a pipe open: the pipe ends
// when the last of them is gone.
type family struct {
	cmd  *exec.Cmd
	said *bufio.Reader // what the processes write to descriptor 3
	ours *os.File      // our copy of what they write to
}

func newFamily(t *testing.T, script string) *family {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = read.Close(); _ = write.Close() })
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.ExtraFiles = []*os.File{write}
	return &family{cmd: cmd, said: bufio.NewReader(read), ours: write}
}

// blocked is a process that waits until a signal ends it: it opens a pipe that
// nobody else opens.
func blocked(t *testing.T) string {
	t.Helper()
	path := t.TempDir() + "/never"
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return "read line <" + path
}

func (f *family) line(t *testing.T) string {
	t.Helper()
	line, err := f.said.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// extinct waits until no process of the family is left.
func (f *family) extinct(t *testing.T) {
	t.Helper()
	_ = f.ours.Close()
	if rest, err := io.ReadAll(f.said); err != nil || len(rest) > 0 {
		t.Errorf("the family said %q at its end: %v", rest, err)
	}
}

func (f *family) started(t *testing.T, how child.How) *child.Child {
	t.Helper()
	c, err := child.Start(f.cmd, how)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Kill(); _ = c.Wait() })
	return c
}

func TestEndTakesTheGroupWithIt(t *testing.T) {
	t.Parallel()
	f := newFamily(t, "("+blocked(t)+") & echo ready >&3; exit 3")
	c := f.started(t, child.How{})
	f.line(t)
	f.extinct(t)
	exit := (*exec.ExitError)(nil)
	if err := c.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 3 || child.KilledBy(err) != 0 {
		t.Errorf("it ended with %v", err)
	}
	if got := c.State().String(); got != "exit status 3" {
		t.Errorf("its state is %s", got)
	}
	if c.Alive() {
		t.Error("it is alive after its end")
	}
	c.Kill() // reaches nobody
}

func TestKillReachesTheGroup(t *testing.T) {
	t.Parallel()
	f := newFamily(t, "("+blocked(t)+") & echo ready >&3; "+blocked(t))
	c := f.started(t, child.How{})
	f.line(t)
	if !c.Alive() || c.State() != nil {
		t.Errorf("alive: %t, state: %v", c.Alive(), c.State())
	}
	c.Kill()
	f.extinct(t)
	if got := child.KilledBy(c.Wait()); got != unix.SIGKILL {
		t.Errorf("it was killed by %v", got)
	}
}

func TestStopAsksFirst(t *testing.T) {
	t.Parallel()
	f := newFamily(t, `trap "echo asked >&3; exit 7" TERM; (echo ready >&3; `+blocked(t)+`); :`)
	c := f.started(t, child.How{})
	f.line(t)
	c.Stop(long)
	if got := f.line(t); got != "asked" {
		t.Errorf("it said %q", got)
	}
	if got := c.Wait().Error(); got != "exit status 7" {
		t.Errorf("it ended with %s", got)
	}
}

func TestStopKillsWhoDoesNotListen(t *testing.T) {
	t.Parallel()
	f := newFamily(t, `trap "" TERM; echo ready >&3; `+blocked(t))
	c := f.started(t, child.How{})
	f.line(t)
	c.Stop(time.Millisecond)
	if got := child.KilledBy(c.Wait()); got != unix.SIGKILL {
		t.Errorf("it was killed by %v", got)
	}
}

func TestChildThatLeadsAnotherGroup(t *testing.T) {
	t.Parallel()
	l := child.NewLauncher()
	defer l.Close()
	f := newFamily(t, `exec setsid /bin/sh -c '(`+blocked(t)+`) & echo ready >&3; `+blocked(t)+`'`)
	c, err := l.Start(f.cmd, child.How{})
	if err != nil {
		t.Fatal(err)
	}
	f.line(t)
	c.Kill()
	f.extinct(t)
	if got := child.KilledBy(c.Wait()); got != unix.SIGKILL {
		t.Errorf("it was killed by %v", got)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	out := &child.Head{Limit: 100}
	cmd := exec.Command("/bin/sh", "-c", "cat; echo two >&2")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("one\n"), out, out
	if err := child.Run(t.Context(), cmd, child.How{}, 0); err != nil || out.String() != "one\ntwo" {
		t.Errorf("%q, %v", out, err)
	}
	if err := child.Run(t.Context(), exec.Command("/does/not/exist"), child.How{}, 0); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a program that is not there: %v", err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	f := newFamily(t, "("+blocked(t)+") & echo ready >&3; "+blocked(t))
	result := make(chan error)
	go func() { result <- child.Run(ctx, f.cmd, child.How{}, 0) }()
	f.line(t)
	cancel(errors.New("enough"))
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	f.extinct(t)
	if err := child.Run(ctx, exec.Command("/does/not/exist"), child.How{}, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}

// A process that has left the group and holds the output open is not waited
// for.
func TestWaitDoesNotWaitForADeserter(t *testing.T) {
	t.Parallel()
	out := &heard{Head: child.Head{Limit: 100}, first: make(chan struct{})}
	f := newFamily(t, `setsid /bin/sh -c 'echo $$ >&3; `+blocked(t)+`' & echo said; read end; exit 0`)
	end, ended, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	f.cmd.Stdin, f.cmd.Stdout, f.cmd.WaitDelay = end, out, time.Millisecond
	c := f.started(t, child.How{Daemon: true}) // or the deserter may be killed before it deserts
	deserter := 0
	if _, err := fmt.Sscan(f.line(t), &deserter); err != nil {
		t.Fatal(err)
	}
	<-out.first // what is not read when the child ends may be left behind
	ended.Close()
	if err := c.Wait(); err != nil || out.String() != "said" {
		t.Errorf("%q, %v", out, err)
	}
	if err := unix.Kill(deserter, unix.SIGKILL); err != nil {
		t.Errorf("the deserter is gone: %v", err)
	}
	f.extinct(t)
}

// heard closes first when the first output arrives.
type heard struct {
	child.Head
	once  sync.Once
	first chan struct{}
}

func (h *heard) Write(p []byte) (int, error) {
	defer h.once.Do(func() { close(h.first) })
	return h.Head.Write(p)
}

func TestStops(t *testing.T) {
	t.Parallel()
	f := newFamily(t, "kill -s STOP $$; kill -s STOP $$; exit 5")
	c := f.started(t, child.How{})
	start := time.Now()
	for range 2 {
		<-c.Stops()
		if !c.Alive() {
			t.Error("a child that is stopped counts as ended")
		}
		c.Signal(unix.SIGCONT)
	}
	if rested := c.Rested(start); rested <= 0 || rested > time.Since(start) || c.Rested(time.Now()) > time.Since(start) {
		t.Errorf("it rested for %s", rested)
	}
	if got := c.Wait().Error(); got != "exit status 5" {
		t.Errorf("it ended with %s", got)
	}
}

// A child that is stopped again as soon as it is continued is told as stopped
// each time.
func TestStopsAgainAtOnce(t *testing.T) {
	t.Parallel()
	f := newFamily(t, blocked(t))
	c := f.started(t, child.How{})
	for range 500 {
		c.Signal(unix.SIGSTOP)
		<-c.Stops()
		c.Signal(unix.SIGCONT)
	}
	c.Kill()
	if got := child.KilledBy(c.Wait()); got != unix.SIGKILL {
		t.Errorf("it was killed by %v", got)
	}
}

func TestSession(t *testing.T) {
	t.Parallel()
	for _, session := range []bool{false, true} {
		f := newFamily(t, "echo ready >&3; "+blocked(t))
		c := f.started(t, child.How{Session: session})
		f.line(t)
		group, _ := unix.Getpgid(c.PID())
		sid, _ := unix.Getsid(c.PID())
		if group != c.PID() || (sid == c.PID()) != session {
			t.Errorf("process %d: group %d, session %d", c.PID(), group, sid)
		}
	}
}

// raisedVariable is set in a process of this test that has a higher priority, and no right
// to change that of others.
const raisedVariable = "BERTH_TEST_RAISED"

// A child has the ordinary priority also if it is another user's and this process may not
// change the priority of others, as under systemd.
func TestOrdinaryPriority(t *testing.T) {
	const raised, usual = 25, 20 // as the kernel counts: nice -5 and 0
	if os.Geteuid() != 0 {
		t.Skip("only root may raise a priority first")
	}
	if os.Getenv(raisedVariable) == "" {
		// A program gets the priority and the bounding set of the thread that starts it.
		// Nobody else does: other tests may be in the same group of processes.
		runtime.LockOSThread() // the thread ends with the test
		if unix.Setpriority(unix.PRIO_PROCESS, 0, -5) != nil || unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_SYS_NICE, 0, 0, 0) != nil {
			t.Skip("this process may not raise its priority")
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestOrdinaryPriority$", "-test.v")
		cmd.Env = append(os.Environ(), raisedVariable+"=1")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
		return
	}
	for _, user := range []*syscall.Credential{nil, {Uid: 65534, Gid: 65534}} {
		for ordinary, want := range map[bool]int{false: raised, true: usual} {
			f := newFamily(t, "echo ready >&3; kill -STOP $$") // a user may not open the pipe of blocked
			f.cmd.Dir = "/"
			c := f.started(t, child.How{Ordinary: ordinary, User: user})
			f.line(t)
			if got, err := unix.Getpriority(unix.PRIO_PROCESS, c.PID()); err != nil || got != want {
				t.Errorf("user %v, ordinary %t: its priority is %d, want %d (%v)", user, ordinary, got, want, err)
			}
		}
	}
}

func TestUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may start a process as somebody else")
	}
	out := &child.Head{Limit: 100}
	cmd := exec.Command("/bin/sh", "-c", "id -u; id -g")
	cmd.Dir, cmd.Stdout = "/", out
	how := child.How{User: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if err := child.Run(t.Context(), cmd, how, 0); err != nil || out.String() != "65534\n65534" {
		t.Errorf("%q, %v", out, err)
	}
}
