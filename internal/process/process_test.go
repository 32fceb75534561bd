package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/process/kinship"
)

func TestMain(m *testing.M) {
	if said := os.Getenv(uidsVariable); said != "" {
		os.Exit(becomeUsers(said))
	}
	goleak.VerifyTestMain(m)
}

// child starts a process that lives until it is killed.
func child(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func TestIdentify(t *testing.T) {
	cmd := child(t)
	table := Proc()
	id, err := table.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if !table.Alive(id) {
		t.Error("a process that was just started is not alive")
	}
	if parent, err := table.Parent(id.PID); err != nil || parent != os.Getpid() {
		t.Errorf("Parent = %d, %v; want %d", parent, err, os.Getpid())
	}
	if uid, err := table.UID(id.PID); err != nil || uid != os.Geteuid() {
		t.Errorf("UID = %d, %v; want %d", uid, err, os.Geteuid())
	}
	if name := table.Name(id.PID); name != "cat" {
		t.Errorf("Name = %q, want cat", name)
	}
	if table.Alive(ID{PID: id.PID, Start: id.Start + 1}) {
		t.Error("a process with another start time counts as the same")
	}
}

// A process that cannot be looked at has not ended.
func TestWhatCannotBeReadHasNotEnded(t *testing.T) {
	id, err := Proc().Identify(child(t).Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, strconv.Itoa(id.PID), "stat"), 0o700); err != nil { // which cannot be read
		t.Fatal(err)
	}
	for _, test := range []struct {
		what  string
		table Table
		id    ID
		ended bool
	}{
		{"it runs", Proc(), id, false},
		{"it cannot be read", At(root), id, false},
		{"there is none", At(t.TempDir()), id, true},
		{"another one has its pid", Proc(), ID{PID: id.PID, Start: id.Start + 1}, true},
	} {
		_, controlled := test.table.Control(test.id)
		reaches := test.table.Reaches(kinship.Authority(), test.id)
		stop, watched := test.table.Watch(test.id, func() {})
		if stop != nil {
			stop()
		}
		if test.table.Ended(test.id) != test.ended || test.ended && test.table.Alive(test.id) ||
			errors.Is(controlled, ErrGone) != test.ended || errors.Is(reaches, ErrGone) != test.ended || errors.Is(watched, ErrGone) != test.ended {
			t.Errorf("%s: ended %v, %v, %v, %v", test.what, test.table.Ended(test.id), controlled, reaches, watched)
		}
	}
}

// A process whose first thread has exited runs for as long as another thread does.
func TestAProcessThatHasLostItsFirstThread(t *testing.T) {
	id := ID{PID: 7, Start: 12345}
	for threads, ended := range map[int]bool{1: true, 2: false} {
		root := t.TempDir()
		text := fmt.Sprintf("7 (a) Z 1 7 7 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 %d 0 12345 0 0 0\n", threads)
		if err := errors.Join(os.Mkdir(filepath.Join(root, "7"), 0o700), os.WriteFile(filepath.Join(root, "7", "stat"), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		if got := At(root).Ended(id); got != ended || At(root).Alive(id) == ended {
			t.Errorf("with %d threads it has ended: %v", threads, got)
		}
	}
}

func TestNowIsTheClockOfStart(t *testing.T) {
	before := Now()
	id, err := Proc().Identify(child(t).Process.Pid)
	if after := Now(); err != nil || id.Start < before || id.Start > after {
		t.Errorf("a process that was started between %d and %d says %d, %v", before, after, id.Start, err)
	}
}

func TestLine(t *testing.T) {
	self, err := Proc().Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	id, err := Proc().Identify(child(t).Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if line := Proc().Ancestry(id); len(line) < 2 || line[0] != id || line[1] != self {
		t.Errorf("the line of %v is %v, want itself and then %v", id, line, self)
	}
	gone := ID{PID: 1 << 30}
	if line := Proc().Ancestry(gone); len(line) != 1 || line[0] != gone {
		t.Errorf("the line of nobody is %v", line)
	}
}

func TestZombieIsNotAlive(t *testing.T) {
	cmd := child(t)
	table := Proc()
	id, err := table.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	stop, err := table.Watch(id, func() { close(ended) })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended // it is a zombie now: nobody has waited for it
	if table.Alive(id) {
		t.Error("a zombie counts as alive")
	}
}

// The signal that ended a process is told while it is a zombie, and after its parent has
// waited for it where the kernel keeps it.
func TestWatchTellsTheSignal(t *testing.T) {
	for _, by := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSEGV, 0} {
		cmd := exec.Command("cat")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		id, err := Proc().Identify(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan bool, 1)
		stop, err := Proc().WatchEnd(id, func(killed bool) { ended <- killed })
		if err != nil {
			t.Fatal(err)
		}
		if by == 0 {
			_ = in.Close()
		} else if err := cmd.Process.Signal(by); err != nil {
			t.Fatal(err)
		}
		if got := <-ended; got != (by != 0) { // nobody has waited for it
			t.Errorf("the end by %v was told as killed: %v", by, got)
		}
		stop()
		_ = in.Close()
		_ = cmd.Wait()
	}
}

func TestSignalOfAProcessThatWasWaitedFor(t *testing.T) {
	cmd := child(t)
	fd, err := unix.PidfdOpen(cmd.Process.Pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "pidfd")
	defer file.Close()
	conn, err := file.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	status, known := reapedStatus(conn)
	if !known {
		t.Skip("this kernel keeps no status of processes that were waited for: it is older than Linux 6.15")
	}
	if got := signalOf(status); got != syscall.SIGKILL {
		t.Errorf("the end by SIGKILL was told as %v", got)
	}
}

func TestWatchTellsOnce(t *testing.T) {
	cmd := child(t)
	id, err := Proc().Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	if _, err := Proc().Watch(id, func() { close(ended) }); err != nil { // a second close would panic
		t.Fatal(err)
	}
	if err := syscall.Kill(id.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-ended
}

func TestStoppedWatchSaysNothing(t *testing.T) {
	cmd := child(t)
	id, err := Proc().Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	stop, err := Proc().Watch(id, func() { t.Error("told after stop") })
	if err != nil {
		t.Fatal(err)
	}
	stop()
	stop()
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

func TestWatchMayBeStoppedByTheOneWhoIsTold(t *testing.T) {
	cmd := child(t)
	id, err := Proc().Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	stops, stopped := make(chan func(), 1), make(chan struct{})
	stop, err := Proc().Watch(id, func() {
		(<-stops)()
		close(stopped)
	})
	if err != nil {
		t.Fatal(err)
	}
	stops <- stop
	_ = cmd.Process.Kill()
	<-stopped
}

func TestGone(t *testing.T) {
	cmd := child(t)
	id, err := Proc().Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if now, err := Proc().Identify(id.PID); !errors.Is(err, ErrGone) && (err != nil || now == id) { // another may have the pid by now
		t.Errorf("Identify = %v, %v, want %v", now, err, ErrGone)
	}
	if _, err := Proc().Watch(id, func() {}); !errors.Is(err, ErrGone) {
		t.Errorf("Watch = %v, want %v", err, ErrGone)
	}
}

// A recycled pid: the process that has it now is not the one that was meant.
func TestWatchRefusesAnotherProcessWithTheSamePID(t *testing.T) {
	cmd := child(t)
	id, err := Proc().Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	id.Start--
	if _, err := Proc().Watch(id, func() {}); !errors.Is(err, ErrGone) {
		t.Errorf("Watch = %v, want %v", err, ErrGone)
	}
}

func TestParseStat(t *testing.T) {
	const tail = " S 7 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 2 9\n"
	for _, name := range []string{"cat", "a b", ") R 1 (", "((("} {
		s, err := parseStat([]byte("42 (" + name + ")" + tail))
		if err != nil || s.parent != 7 || s.start != 98765 || s.state != 'S' || s.cpu != 11 || s.resident != 2 {
			t.Errorf("parseStat of a process called %q = %+v, %v", name, s, err)
		}
	}
	for _, bad := range []string{"", "42", "42 (cat", "42 (cat) S 7", "42 (cat) S x 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 y 1"} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("parseStat(%q) found no fault", bad)
		}
	}
}

// A process that has computed for a while says so, and how much memory it has.
func TestSpent(t *testing.T) {
	spent, err := Proc().Spent(os.Getpid())
	for err == nil && spent.CPU == 0 { // a tick of the clock
		spent, err = Proc().Spent(os.Getpid())
	}
	if err != nil || spent.Memory <= 0 || spent.ID.Start == 0 {
		t.Errorf("%+v, %v", spent, err)
	}
	if _, err := Proc().Spent(1 << 30); !errors.Is(err, ErrGone) {
		t.Errorf("a process that there is not: %v", err)
	}
}

func TestBoot(t *testing.T) {
	id, err := Proc().Boot()
	if err != nil || id == "" {
		t.Errorf("Boot = %q, %v", id, err)
	}
	root := t.TempDir()
	if _, err := (Table{root: root}).Boot(); err == nil {
		t.Error("Boot of an empty proc found no fault")
	}
	for _, view := range []struct{ folder, id string }{{"sys", "of-this-process"}, {"1/root/proc/sys", "of-process-1"}} {
		folder := filepath.Join(root, view.folder, "kernel/random")
		if err := errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(filepath.Join(folder, "boot_id"), []byte(view.id+"\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
		if id, err := (Table{root: root}).Boot(); err != nil || id != view.id {
			t.Errorf("Boot = %q, %v; want %s", id, err, view.id)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, strconv.Itoa(1)), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := (Table{root: root}).Identify(1); !errors.Is(err, ErrGone) {
		t.Errorf("Identify of a process without stat = %v, want %v", err, ErrGone)
	}
}
