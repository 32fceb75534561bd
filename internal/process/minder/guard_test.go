package minder

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
	"github.com/berth-gpu/berth/internal/process/runs"
)

// gate is a pipe that a command waits at.
type gate struct{ *os.File }

// gate makes a pipe named go in the home of the user.
func (w *world) gate() string {
	w.Helper()
	path := filepath.Join(w.home, "go")
	if err := errors.Join(unix.Mkfifo(path, 0o600), os.Chown(path, w.uid, -1)); err != nil {
		w.Fatal(err)
	}
	return path
}

// open waits until the command waits at the gate.
func (w *world) open(path string) gate {
	w.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		w.Fatal(err)
	}
	return gate{f}
}

// The user cannot look into the minder, which has the record of the run open, and so
// cannot forge an exit code.
func TestUserCannotForgeAnExitCode(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("the minder of a user's own daemon is the user's")
	}
	w := newWorld(t)
	path := w.gate()
	// The command tries it itself: its parent is the minder.
	script := `for f in fd environ maps mem map_files root cwd; do
		if ls /proc/$PPID/$f/ >/dev/null 2>&1 || head -c 1 /proc/$PPID/$f >/dev/null 2>&1; then echo "can read $f"; fi
	done
	ls %s >/dev/null 2>&1 && echo can list the runs
	cat %s >/dev/null 2>&1 && echo can read the record
	echo $PPID; read line < go; exit 9`
	cmd := w.minder("6.0.1", w.order(fmt.Sprintf(script, w.folder, filepath.Join(w.folder, "6.0.1"))))
	g := w.open(path)
	attach := exec.Command(os.Args[0], "-test.run", "^TestAttach$")
	attach.Dir = "/"
	attach.Env = []string{attachTo + "=" + fmt.Sprint(cmd.Process.Pid)}
	attach.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	attach.Path = w.copyOfTest()
	if out, err := attach.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	fmt.Fprintln(g, "go")
	_ = g.Close()
	record := w.end(cmd, "6.0.1")
	if log, _ := os.ReadFile(record.Output); record.Exit != gpu.Some(9) || strings.TrimSpace(string(log)) != fmt.Sprint(cmd.Process.Pid) {
		t.Errorf("%+v, and it wrote %q", record, log)
	}
}

// attachTo names a variable with the process that TestAttach tries to get into.
const attachTo = "BERTH_TEST_ATTACH_TO"

// copyOfTest returns a copy of this test binary that every user can run.
func (w *world) copyOfTest() string {
	w.Helper()
	// Another process makes it: the kernel runs no file that a process has open for writing,
	// and whatever this one starts meanwhile would have it open.
	path := filepath.Join(w.home, "test")
	if out, err := exec.Command("install", "-m", "755", os.Args[0], path).CombinedOutput(); err != nil {
		w.Fatalf("%v: %s", err, out)
	}
	return path
}

// TestAttach tries to get into another process, and fails if it can.
func TestAttach(t *testing.T) {
	pid := 0
	if _, err := fmt.Sscan(os.Getenv(attachTo), &pid); err != nil {
		t.Skip("this is a part of TestUserCannotForgeAnExitCode")
	}
	if err := unix.PtraceSeize(pid); !errors.Is(err, unix.EPERM) {
		t.Errorf("trace: %v", err)
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	for fd := range 16 {
		if _, err := unix.PidfdGetfd(pidfd, fd, 0); !errors.Is(err, unix.EPERM) {
			t.Errorf("take its file %d: %v", fd, err)
		}
	}
	one := make([]byte, 1)
	local, remote := []unix.Iovec{{Base: &one[0], Len: 1}}, []unix.RemoteIovec{{Base: 0x400000, Len: 1}}
	if _, err := unix.ProcessVMReadv(pid, local, remote, 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("read its memory: %v", err)
	}
	if err := unix.Kill(pid, unix.SIGTERM); err != nil { // the user may, and it does not end
		t.Errorf("signal it: %v", err)
	}
}

// Signals that end programs do not end the minder: it writes down how the command ended.
// What the starter ignores, blocks, or has open is nothing to the command.
func TestMinderSurvivesSignals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.gate()
	cmd := w.minder("7.0.1", w.order("read line < go; exit 3"))
	g := w.open(path)
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGTSTP} {
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Fprintln(g, "go")
	_ = g.Close()
	if record := w.end(cmd, "7.0.1"); record.Exit != gpu.Some(3) || record.Shutdown {
		t.Errorf("%+v", record)
	}
}

// A minder that is asked to end while it waits for its order starts nothing.
func TestEndedBeforeItStarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cmd := w.launch("8.0.1") // there is no order, so it asks again and again
	for alive := false; !alive; {
		var record runs.Record
		var err error
		if record, alive, err = w.Read("8.0.1"); err != nil {
			t.Fatal(err)
		}
		alive = alive && record.PID != 0
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if record := w.end(cmd, "8.0.1"); record.Failure != "it was ended before it could start" || !record.Started.IsZero() {
		t.Errorf("%+v", record)
	}
}

// The minder is started by a process that ignores signals, has files open for everybody,
// a variable, a nice value and a file size limit: the command has none of that.
func TestNothingOfTheStarterIsInherited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	script := "grep -E '^SigIgn' /proc/$$/status | cut -f2; ls /proc/self/fd; nice; cat /proc/$$/oom_score_adj; env | grep -c SECRET"
	text := w.write(w.order(script))
	outer := exec.Command("sh", "-c", `trap "" HUP INT USR1 PIPE; exec 7</etc/passwd 8<&7; export SECRET=1; exec "$@"`, "sh",
		w.Program, Verb, "--runs", w.folder, "--run", "9.0.1", "--socket", text)
	if err := outer.Start(); err != nil {
		t.Fatal(err)
	}
	record := w.end(outer, "9.0.1")
	// ls opens the folder that it lists.
	want := "0000000000000000\n0\n1\n2\n3\n0\n0\n0\n"
	if log, _ := os.ReadFile(record.Output); ordinary(string(log)) != want {
		t.Errorf("%+v, and it wrote %q", record, log)
	}
}

// A run without room on the disk does not start, and says why.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount a small disk")
	}
	w := newWorld(t)
	disk := t.TempDir()
	if err := unix.Mount("none", disk, "tmpfs", 0, "size=64k,mode=700"); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	runs, err := Open(filepath.Join(disk, "runs"))
	if err != nil {
		t.Fatal(err)
	}
	w.Starter = NewStarter(runs, w.Options)
	path := w.gate()
	order := w.order("echo it runs; read line < go; exit 4")
	first := w.minder("10.0.1", order)
	g := w.open(path)
	fill(t, disk)
	// The room for the end of the first is reserved. The second has none.
	second := w.launch("10.0.2")
	if err := second.Wait(); err == nil || !strings.Contains(fmt.Sprint(second.Stderr), "no space left") {
		t.Errorf("a run without room: %v, %s", err, second.Stderr)
	}
	if record, alive, err := w.Read("10.0.2"); err != nil || alive || record.PID != 0 {
		t.Errorf("%+v, %t, %v", record, alive, err)
	}
	fmt.Fprintln(g, "go")
	_ = g.Close()
	if record := w.end(first, "10.0.1"); record.Exit != gpu.Some(4) {
		t.Errorf("%+v", record)
	}
}

// fill leaves no room on a disk.
func fill(t *testing.T, disk string) {
	t.Helper()
	f, err := os.Create(filepath.Join(disk, "full"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}

// A minder starts in a control group of its own where that can be, and whatever a killed
// minder leaves is ended with it.
func TestRemoveEndsWhatIsLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.gate()
	order := w.order(`setsid -f sh -c 'read line < go'` + "\nread line < go")
	order.Environment = append(order.Environment, "BERTH_LEASE=train-17", "BERTH_FENCE=5") // as the launch of a lease does
	w.write(order)
	id, err := w.Start(t.Context(), "11.0.1", runs.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	g := w.open(path)
	record, alive, err := w.Read("11.0.1")
	if err != nil || !alive || record.Minder() != id {
		t.Fatalf("%+v of process %v, %t, %v", record, id, alive, err)
	}
	if err := w.Remove("11.0.1"); err == nil {
		t.Error("the record of a run was removed while its minder lives")
	}
	ended := make(chan struct{})
	if _, err := w.Watch(record.Minder(), func() { close(ended) }); err != nil {
		t.Fatal(err)
	}
	_ = process.Proc().Signal(kinship.Authority(), record.Minder(), process.Kill)
	<-ended
	if err := w.Remove("11.0.1"); err != nil {
		t.Error(err)
	}
	unread(t, g.File)
	for _, folder := range record.Groups {
		if _, err := os.Stat(folder); err == nil {
			t.Errorf("%s is left", folder)
		}
	}
}

// A run that takes more memory than its limit is ended, and says so.
func TestLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := w.CanLimit(); err != nil {
		if _, err := w.Start(t.Context(), "12.0.1", runs.Limits{HostMemory: 64}); !errors.Is(err, runs.ErrLimits) {
			t.Errorf("it was started without its limit: %v", err)
		}
		t.Skip(err)
	}
	w.write(w.order("head -c 300m /dev/zero | tail -c 300m > /dev/null"))
	if _, err := w.Start(t.Context(), "12.0.1", runs.Limits{HostMemory: 64, CPUs: 0.5}); err != nil {
		t.Fatal(err)
	}
	record := w.over("12.0.1")
	if !record.OutOfMemory || record.Exit == gpu.Some(0) || record.PeakHost > 80 {
		t.Errorf("%+v", record)
	}
	w.write(w.order("cat /proc/self/cgroup"))
	if _, err := w.Start(t.Context(), "12.1.1", runs.Limits{HostMemory: 64, CPUs: 0.5}); err != nil {
		t.Fatal(err)
	}
	if record := w.over("12.1.1"); record.OutOfMemory || record.Exit != gpu.Some(0) {
		t.Errorf("%+v", record)
	}
	for _, run := range []string{"12.0.1", "12.1.1"} {
		if err := w.Remove(run); err != nil {
			t.Error(err)
		}
	}
}

// A minder that is not started, or dies before it writes its record, leaves no group.
func TestGroupsOfMindersThatDieEarly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := w.CanLimit(); err != nil {
		t.Skip(err)
	}
	o := w.Options
	o.Program = "/bin/true"
	w.Starter = NewStarter(w.Runs, o)
	if _, err := w.Start(t.Context(), "15.0.1", runs.Limits{HostMemory: 64}); err != nil {
		t.Fatal(err)
	}
	made := w.groups["15.0.1"]
	gone := func() {
		for _, folder := range made {
			if _, err := os.Stat(folder); err == nil {
				t.Errorf("%s is left", folder)
			}
		}
	}
	if err := w.Remove("15.0.1"); err != nil {
		t.Error(err)
	}
	gone()
	w.Starter.minder = func() string { return filepath.Join(t.TempDir(), "absent") }
	if _, err := w.Start(t.Context(), "15.0.1", runs.Limits{HostMemory: 64}); err == nil {
		t.Error("a program was started that is not there")
	}
	gone()
	if len(made) == 0 || len(w.groups) != 0 {
		t.Errorf("it made %v, and remembers %v", made, w.groups)
	}
}

// A minder that cannot enter the control group of its run says so, and starts nothing.
func TestNoGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(w.order("true"))
	missing := filepath.Join(t.TempDir(), "group")
	id, err := w.child(t.Context(), w.Program, []string{Verb, "--runs", w.folder, "--run", "14.0.1", "--socket", w.Socket, "--group", missing}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	record := w.over("14.0.1")
	if record.Minder() != id || !record.Started.IsZero() || record.Exit.Known() || !strings.Contains(record.Failure, "enter the control group") {
		t.Errorf("%+v", record)
	}
}

// Where systemd runs, also one of a user, it starts minders and readers of logs.
func TestSystemd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.Options
	o.Systemd = true
	w.Starter = NewStarter(w.Runs, o)
	if w.manager == nil {
		t.Skip("there is no systemd")
	}
	w.write(w.order("sed -n s/^0:://p /proc/self/cgroup; exit 3"))
	id, err := w.Start(t.Context(), "13.0.1", runs.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	record := w.over("13.0.1")
	if id != record.Minder() && id != (process.ID{}) { // it may have ended before systemd was asked
		t.Errorf("systemd started process %v, and %v wrote the record", id, record.Minder())
	}
	var log strings.Builder
	err = w.ReadLog(t.Context(), Reading{User: w.name, UID: w.uid, Path: record.Output}, nil, nil, &log)
	if want := "/berth.slice/" + w.unit("13.0.1") + ".service\n"; err != nil || record.Exit != gpu.Some(3) || !strings.HasSuffix(log.String(), want) {
		t.Errorf("%+v, %q, %v", record, log.String(), err)
	}
	if err := w.Remove("13.0.1"); err != nil {
		t.Error(err)
	}
	if err := w.manager.kill(t.Context(), "berth-job-no-such"); err != nil {
		t.Errorf("a unit that is not there: %v", err)
	}
}

// A process that has kept a group of root is none of its user's, whatever its user and its
// first group are.
func TestGroupsAreProved(t *testing.T) {
	p := person{uid: 1000, gid: 100, groups: []int{100, 27, 1000, 27}}
	const status = "Uid:\t1000\t1000\t1000\t1000\nGid:\t100\t100\t100\t100\nGroups:\t%s\nCapPrm:\t0\nCapEff:\t0\nCapAmb:\t0\n"
	for groups, fine := range map[string]bool{"27 100 1000 ": true, "27 27 100 1000": true, "0 27 100 1000": false, "27 100": false, "": false} {
		if err := p.checkThread(fmt.Sprintf(status, groups), true); (err == nil) != fine {
			t.Errorf("with the groups %q: %v", groups, err)
		}
		if err := p.checkThread(fmt.Sprintf(status, groups), false); err != nil {
			t.Errorf("of a process that set no groups: %v", err)
		}
	}
	if err := (person{uid: 1000, gid: 100}).checkThread(fmt.Sprintf(status, ""), true); err != nil {
		t.Errorf("of a user without groups: %v", err)
	}
}

// Room is reserved for what started says, whatever the names of the logs are.
func TestRoomForTheStartIsReserved(t *testing.T) {
	folder, err := Open(filepath.Join(t.TempDir(), "runs"))
	if err != nil {
		t.Fatal(err)
	}
	n, err := folder.take("1.0.1")
	if err != nil {
		t.Fatal(err)
	}
	defer n.file.Close()
	before, err := n.file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("/long", 4096/5)
	if err := n.write(startedAt, runs.Record{Started: time.Now(), UID: 65534, Lease: strings.Repeat("l", 200), Fence: 1 << 60, Output: long, Error: long}); err != nil {
		t.Fatal(err)
	}
	if after, err := n.file.Stat(); err != nil || after.Size() != before.Size() {
		t.Errorf("the file had %d bytes, and has %d: %v", before.Size(), after.Size(), err)
	}
}
