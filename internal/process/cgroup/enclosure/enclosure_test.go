package enclosure

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/cgroup"
)

// tryOpen names the variable that makes this program a child of the tests: it
// opens each file that it reads the name of, and says what the kernel answers.
const tryOpen = "BERTH_TEST_TRY_OPEN"

func TestMain(m *testing.M) {
	if os.Getenv(tryOpen) != "" {
		for names := bufio.NewScanner(os.Stdin); names.Scan(); {
			fd, err := unix.Open(names.Text(), unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
			if err == nil {
				_ = unix.Close(fd)
			}
			fmt.Println(unix.ErrnoName(errnoOf(err)))
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func errnoOf(err error) unix.Errno {
	var errno unix.Errno
	errors.As(err, &errno)
	return errno
}

// program is a child of the test.
type program struct {
	process.ID
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startProgram(t *testing.T) *program {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), tryOpen+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := process.Proc().Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	p := &program{ID: id, Cmd: cmd, in: in, out: bufio.NewReader(out)}
	t.Cleanup(p.end)
	return p
}

func (p *program) end() { _ = p.in.Close(); _ = p.Cmd.Wait() }

// opens returns what the kernel answers when the program opens a file; empty:
// it opened it.
func (p *program) opens(t *testing.T, path string) string {
	t.Helper()
	if _, err := fmt.Fprintln(p.in, path); err != nil {
		t.Fatal(err)
	}
	answer, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(answer)
}

// pool returns a pool with a tag of its own, or skips the test where this
// process may not do what the daemon does.
func pool(t *testing.T) *Pool {
	t.Helper()
	p := New(fmt.Sprintf("%x-test", os.Getpid()))
	if err := p.Available(); err != nil {
		t.Skipf("devices cannot be filtered here: %v", err)
	}
	if top, _ := cgroup.Top(); unix.Access(top, unix.W_OK) != nil {
		t.Skip("control groups cannot be made here")
	}
	return p
}

// node makes a device file of NVIDIA's. Without a driver, opening it fails with
// ENXIO or ENODEV where a filter allows it, and with EPERM where none does.
func node(t *testing.T, minor int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), fmt.Sprint("nvidia", minor))
	if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(nvidiaMajor, uint32(minor)))); err != nil {
		t.Skipf("device files cannot be made here: %v", err)
	}
	return path
}

// A program opens the GPUs that it has leased, and everything but GPUs. It cannot
// open the others, and neither can what it starts.
func TestOnlyLeasedGPUsCanBeOpened(t *testing.T) {
	p, child := pool(t), startProgram(t)
	files := map[int]string{}
	before := map[int]string{}
	for _, minor := range []int{0, 1, 2, 130, 247, 248, 254, 255} {
		files[minor] = node(t, minor)
		if before[minor] = child.opens(t, files[minor]); before[minor] == "EPERM" {
			t.Skip("device files cannot be opened here")
		}
	}
	if _, err := p.Enclose(child.ID, 7, []int{1, 130}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { child.end(); p.Release(7); p.tidy() })
	for minor, path := range files {
		want := before[minor]
		if minor == 0 || minor == 2 || minor == 247 {
			want = "EPERM"
		}
		if got := child.opens(t, path); got != want {
			t.Errorf("with GPUs 1 and 130 leased, opening minor %d answers %q, want %q", minor, got, want)
		}
	}
	if got := child.opens(t, "/dev/null"); got != "" {
		t.Errorf("/dev/null answers %s", got)
	}
	if !p.Encloses(7) || p.Encloses(8) {
		t.Error("the pool does not know which lease has a group")
	}
}

// A lease below another has what both have, whatever its own filter allows.
func TestInnerGroupAllowsNoMoreThanTheOuter(t *testing.T) {
	p, child := pool(t), startProgram(t)
	first, second := node(t, 1), node(t, 2)
	if child.opens(t, first) == "EPERM" {
		t.Skip("device files cannot be opened here")
	}
	for fence, minors := range map[uint64][]int{1: {1}, 2: {1, 2}} {
		if _, err := p.Enclose(child.ID, fence, minors); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		child.end()
		p.Release(1)
		p.Release(2)
		for p.tidy() > 0 { // the inner one goes first
		}
	})
	if got := child.opens(t, first); got == "EPERM" {
		t.Error("a GPU that both leases have cannot be opened")
	}
	if got := child.opens(t, second); got != "EPERM" {
		t.Errorf("a GPU that only one of the leases has answers %q", got)
	}
}

// The group of a lease goes with the lease, but not before its last process. A
// daemon that was killed leaves groups to the next one, which keeps those whose
// leases stand, and removes the others.
func TestGroupsGoWithTheirLeases(t *testing.T) {
	p, stays, goes := pool(t), startProgram(t), startProgram(t)
	for fence, child := range map[uint64]*program{1: stays, 2: goes} {
		if _, err := p.Enclose(child.ID, fence, nil); err != nil {
			t.Fatal(err)
		}
	}
	groupOf := func(fence uint64) string { return p.groups[fence] }
	one, two := groupOf(1), groupOf(2)
	if _, err := p.Enclose(stays.ID, 1, nil); err != nil || groupOf(1) != one { // as one that asks for its order again
		t.Errorf("a process in the group of its lease is in %s now, and was in %s; %v", groupOf(1), one, err)
	}
	t.Cleanup(func() { stays.end(); _ = os.Remove(one); _ = os.Remove(two) })

	p.Release(2)
	if left := p.tidy(); left != 1 {
		t.Fatalf("%d groups are left while a process is in one", left)
	}
	next := New(p.tag) // after a kill -9
	goes.end()
	next.recall(func(fence uint64) bool { return fence == 1 })
	for next.tidy() > 0 { // the kernel takes a moment to let go of a process
	}
	if _, err := os.Stat(two); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the group of the lease that ended: %v", err)
	}
	if !next.Encloses(1) || next.Encloses(2) {
		t.Error("the next daemon does not know which lease has a group")
	}
	if _, err := os.Stat(one); err != nil {
		t.Errorf("the group of the lease that stands: %v", err)
	}
	other := New("another")
	other.recall(func(uint64) bool { return false })
	if other.tidy(); other.Encloses(1) {
		t.Error("a daemon takes the group of another for its own")
	}
}

// Run removes the group of a lease that ends, and ends with its context.
func TestRunRemovesGroups(t *testing.T) {
	p, child := pool(t), startProgram(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); p.Run(ctx, func(uint64) bool { return true }) }()
	if _, err := p.Enclose(child.ID, 3, nil); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	group := p.groups[3]
	p.mu.Unlock()
	child.end()
	p.Release(3)
	for {
		if _, err := os.Stat(group); errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	cancel()
	<-done
}

// A process that has ended, or that another one got the pid of, is not moved.
func TestOnlyThisVeryProcessIsMoved(t *testing.T) {
	p, child := pool(t), startProgram(t)
	another := child.ID
	another.Start++
	if _, err := p.Enclose(another, 4, nil); !errors.Is(err, process.ErrGone) {
		t.Errorf("another process with the pid: %v", err)
	}
	child.end()
	if _, err := p.Enclose(child.ID, 5, nil); !errors.Is(err, process.ErrGone) {
		t.Errorf("a process that has ended: %v", err)
	}
	for p.tidy() > 0 {
	}
	if p.Encloses(4) || p.Encloses(5) {
		t.Error("a lease without a process has a group")
	}
}

// Without a file descriptor nobody knows whether a process has ended, and it counts as alive.
func TestAProcessIsNotGoneForWantOfFiles(t *testing.T) {
	p, child := New("test"), startProgram(t)
	group := t.TempDir()
	var usual unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &usual); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: usual.Max}); err != nil {
		t.Fatal(err)
	}
	moved := p.move(child.ID, group)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &usual); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(moved, unix.EMFILE) || errors.Is(moved, process.ErrGone) {
		t.Errorf("without a file descriptor: %v", moved)
	}
	child.end()
	if err := p.move(child.ID, group); !errors.Is(err, process.ErrGone) {
		t.Errorf("a process that has ended: %v", err)
	}
}

// The owner of a group around the program can move it out, and is told so.
func TestWhoCanLeave(t *testing.T) {
	p := pool(t)
	top, _ := cgroup.Top()
	around := filepath.Join(top, "delegated-"+p.tag)
	if err := os.Mkdir(around, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(around) })
	const nobody = 65534
	cmd := exec.Command("/bin/sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	id, err := process.Proc().Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if p.leavable(id, around, top) {
		t.Error("nobody can leave a group of root")
	}
	if err := os.Chown(filepath.Join(around, "cgroup.procs"), nobody, -1); err != nil {
		t.Fatal(err)
	}
	if !p.leavable(id, filepath.Join(around), top) || !p.leavable(id, filepath.Join(around, "inner"), top) {
		t.Error("nobody cannot leave its own group")
	}
}

func TestNames(t *testing.T) {
	p := New("ab-1")
	for name, want := range map[string]uint64{
		p.name(12): 12, "berth-12-ab": 0, "berth-12": 0, "berth--ab-1": 0, "berth-x-ab-1": 0, "12-ab-1": 0, "berth-99999999999999999999-ab-1": 0,
	} {
		if fence, ours := p.fenceOf(name); ours != (want != 0) || ours && fence != want {
			t.Errorf("%s: %d, %v", name, fence, ours)
		}
	}
}

// A lease that is bound to a second process has a second group, and the first goes too.
// A folder that a user made is no group of a lease, whatever its name is.
func TestEveryGroupOfALeaseGoes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes groups")
	}
	p, top := New("ab"), t.TempDir()
	first, second, made := filepath.Join(top, p.name(7)), filepath.Join(top, "inner", p.name(7)), filepath.Join(top, "user", p.name(8))
	for _, folder := range []string{first, second, made} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(made, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	p.recallBelow(top, func(uint64) bool { return true })
	if !p.Encloses(7) || p.Encloses(8) {
		t.Errorf("lease 7 has a group: %t, lease 8: %t", p.Encloses(7), p.Encloses(8))
	}
	p.Release(7)
	p.Release(8)
	p.tidy()
	for folder, want := range map[string]bool{first: false, second: false, made: true} {
		if _, err := os.Stat(folder); (err == nil) != want {
			t.Errorf("%s: %v", folder, err)
		}
	}
}
