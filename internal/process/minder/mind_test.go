package minder

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/child"
	"github.com/berth-gpu/berth/internal/process/runs"
	"github.com/berth-gpu/berth/internal/when/later"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case Verb:
			os.Exit(beMinder(os.Args[2:]))
		case ReaderVerb:
			os.Exit(report(ServeLog(os.Stdin, os.Stdout)))
		}
	}
	flag.Parse()
	os.Exit(m.Run())
}

// beMinder makes this test binary a minder. Its socket is a file with the order.
func beMinder(arguments []string) int {
	var at Post
	flags := flag.NewFlagSet("minder", flag.ExitOnError)
	flags.StringVar(&at.Runs, "runs", "", "")
	flags.StringVar(&at.Run, "run", "", "")
	flags.Func("group", "", func(folder string) error {
		at.Groups = append(at.Groups, folder)
		return nil
	})
	orders := flags.String("socket", "", "")
	_ = flags.Parse(arguments)
	return report(Mind(context.Background(), at, func(context.Context, string) (api.MinderOrder, error) {
		var order api.MinderOrder
		text, err := os.ReadFile(*orders)
		if err == nil {
			err = json.Unmarshal(text, &order)
		}
		if slices.Contains(order.Command, "asked") {
			asked()
		}
		if string(text) == "refused" {
			err = fmt.Errorf("%w: it was cancelled", ErrRefused)
		}
		return order, err
	}))
}

// asked asks this process to end, and returns when it knows that.
func asked() {
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGTERM)
	_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
	<-got
	signal.Stop(got) // waits until everybody else has got it too
}

// report returns the exit code for an error.
func report(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// world is a folder of runs, and a home for a user.
type world struct {
	*testing.T
	*Starter
	home string
	uid  int
	name string
}

const nobody = 65534

// newWorld makes a world for an ordinary user, or for the user of this test if that is not
// root.
func newWorld(t *testing.T) *world {
	t.Helper()
	runs, err := Open(filepath.Join(t.TempDir(), "runs"))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, uid: os.Geteuid()}
	if w.home, err = os.MkdirTemp("", "minder"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(w.home) })
	if w.uid == 0 {
		w.uid, w.name = nobody, "nobody"
		if err := errors.Join(os.Chmod(w.home, 0o755), os.Chown(w.home, nobody, nobody)); err != nil {
			t.Fatal(err)
		}
	}
	w.Starter = NewStarter(runs, Options{Program: os.Args[0], Socket: filepath.Join(t.TempDir(), "order")})
	return w
}

// order is the order to run a shell script in the home of the user.
func (w *world) order(script string) api.MinderOrder {
	return api.MinderOrder{
		Version: 1, User: w.name, UID: w.uid, Command: []string{"/bin/sh", "-c", script}, Directory: w.home, Umask: 0o22, Log: "berth-train-17.log",
		Environment: []string{"PATH=/usr/bin:/bin", "A=b"}, Variables: []string{"BERTH_JOB=train-17"},
		Lease: api.Lease{ID: "train-17", Fence: 5},
	}
}

// write makes this the order that minders get, and returns the file that says it.
func (w *world) write(order api.MinderOrder) string {
	w.Helper()
	text, err := json.Marshal(order)
	if err == nil {
		err = os.WriteFile(w.Socket, text, 0o600)
	}
	if err != nil {
		w.Fatal(err)
	}
	return w.Socket
}

// minder starts a minder for a run with this order.
func (w *world) minder(run string, order api.MinderOrder) *exec.Cmd {
	w.Helper()
	w.write(order)
	return w.launch(run)
}

// over waits until a minder that Start has started has written down the end, and returns
// its record.
func (w *world) over(run string) runs.Record {
	w.Helper()
	for {
		record, alive, err := w.Read(run)
		if err != nil {
			w.Fatal(err)
		}
		if !alive && !record.Ended.IsZero() {
			return record
		}
		if w.Context().Err() != nil {
			w.Fatal("it does not end")
		}
		runtime.Gosched()
	}
}

func (w *world) launch(run string) *exec.Cmd {
	w.Helper()
	cmd := exec.Command(w.Program, Verb, "--runs", w.folder, "--run", run, "--socket", w.Socket)
	cmd.Stderr = &bytes.Buffer{}
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// end waits for the end of a minder and returns its record.
func (w *world) end(cmd *exec.Cmd, run string) runs.Record {
	w.Helper()
	if err := cmd.Wait(); err != nil {
		w.Fatalf("the minder ended with %v: %s", err, cmd.Stderr)
	}
	record, alive, err := w.Read(run)
	if err != nil || alive {
		w.Fatalf("its record is %+v, alive %t, %v", record, alive, err)
	}
	return record
}

// run runs a script to its end, and returns its record and its log.
func (w *world) run(script string) (runs.Record, string) {
	w.Helper()
	record := w.end(w.minder("17.0.1", w.order(script)), "17.0.1")
	log, _ := os.ReadFile(record.Output)
	return record, string(log)
}

func TestCommand(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		script string
		exit   int
		signal string
		log    string
	}{
		"success":              {"echo hello; echo oops >&2", 0, "", "hello\noops\n"},
		"exit code":            {"exit 7", 7, "", ""},
		"killed":               {"kill -KILL $$", 137, "SIGKILL", ""},
		"the environment":      {"echo $A $BERTH_JOB $HOME", 0, "", "b train-17\n"},
		"no standard input":    {"cat; readlink /proc/$$/fd/0", 0, "", "/dev/null\n"},
		"no other files":       {"ls /proc/self/fd", 0, "", "0\n1\n2\n3\n"},
		"a session of its own": {"cut -d' ' -f6,7 /proc/$$/stat | sed s/^$$/own/", 0, "", "own 0\n"},
		"the umask":            {"umask", 0, "", "0022\n"},
		"no ignored signals":   {"grep -E '^Sig(Ign|Blk)' /proc/$$/status | tr -d '\\t\\n'", 0, "", "SigBlk:0000000000000000SigIgn:0000000000000000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			record, log := w.run(test.script)
			log = ordinary(log)
			if record.Exit != gpu.Some(test.exit) || record.Signal != test.signal || record.Failure != "" || log != test.log {
				t.Errorf("%+v, and it wrote %q", record, log)
			}
			if record.Started.IsZero() || record.Ended.Before(record.Started) || record.PID == 0 || record.Start == 0 || record.Boot == "" ||
				record.Lease != "train-17" || record.Fence != 5 || record.UID != w.uid || record.PeakHost > 100 {
				t.Errorf("%+v", record)
			}
			if want := filepath.Join(w.home, "berth-train-17.log"); record.Output != want || record.Error != "" {
				t.Errorf("its log is %s, its errors are in %q, want %s", record.Output, record.Error, want)
			}
		})
	}
}

// The command has the user, the group and the supplementary groups of the user database,
// and no right beyond that.
func TestUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may become somebody else")
	}
	w := newWorld(t)
	record, log := w.run("id -u; id -g; id -G; grep -E 'Cap(Inh|Prm|Eff|Amb)' /proc/$$/status | cut -f2 | sort -u")
	group := strconv.Itoa(nobody)
	if want := strings.Join([]string{group, group, group, "0000000000000000", ""}, "\n"); record.Exit != gpu.Some(0) || log != want {
		t.Errorf("%+v, and it wrote %q", record, log)
	}
	about, err := os.Stat(record.Output)
	if err != nil {
		t.Fatal(err)
	}
	if owner := about.Sys().(*syscall.Stat_t).Uid; owner != nobody || about.Mode().Perm() != 0o644 {
		t.Errorf("the log belongs to %d, with mode %s", owner, about.Mode())
	}
}

// The command has the account that the daemon has looked up.
func TestAccount(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may become somebody else")
	}
	w := newWorld(t)
	order := w.order("id -u; id -g; id -G; echo $HOME")
	order.User, order.Environment = "no-such-user", nil
	order.Account = &api.MinderAccount{Name: "nobody", GID: 12345, Groups: []int{12345, 12346}, Home: w.home}
	record := w.end(w.minder("7.0.1", order), "7.0.1")
	log, _ := os.ReadFile(record.Output)
	if want := strconv.Itoa(nobody) + "\n12345\n12345 12346\n" + w.home + "\n"; record.Exit != gpu.Some(0) || string(log) != want {
		t.Errorf("%+v, and it wrote %q, want %q", record, log, want)
	}
	if found, err := Account("nobody", nobody); err != nil || found.Name != "nobody" || found.GID != nobody {
		t.Errorf("%+v, %v", found, err)
	}
	if found, err := Account(strconv.Itoa(nobody), nobody); err != nil || found.Name != "nobody" || found.GID != nobody {
		t.Errorf("by its number: %+v, %v", found, err)
	}
	if found, err := Account("70001", 70001); err == nil || later.Passes(err) || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("by a number that nobody has: %+v, %v", found, err)
	}
	if found, err := Account("no-such-user", nobody); err == nil {
		t.Errorf("%+v", found)
	}
}

// The most memory that a process of the run used is that of the run, however deep it is.
func TestPeak(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	record, _ := w.run("(head -c 150m /dev/zero | tail -c 150m > /dev/null) & wait")
	if record.PeakHost < 150 || record.PeakHost > 400 || record.CPU <= 0 {
		t.Errorf("%+v", record)
	}
}

// What keeps a command from starting is written down in words.
func TestFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	full := strconv.Itoa(os.Getpid())
	for i, test := range []struct {
		change func(*api.MinderOrder)
		want   string
		exit   gpu.Opt[int]
	}{
		{func(o *api.MinderOrder) { o.Directory = w.home + "/gone" }, "go to the folder of the job: chdir " + w.home + "/gone: no such file or directory", gpu.Opt[int]{}},
		{func(o *api.MinderOrder) { o.Directory = "." }, "the folder . of the job is not absolute", gpu.Opt[int]{}},
		{func(o *api.MinderOrder) { o.Command = []string{"no-such-program-" + full} }, "there is no such command in the folders of PATH", gpu.Some(127)},
		{func(o *api.MinderOrder) { o.Command = []string{w.home} }, "it is a folder", gpu.Some(126)},
		{func(o *api.MinderOrder) { o.Output = "/dev/no/such" }, "open the file for its output: open /dev/no/such: no such file or directory", gpu.Opt[int]{}},
		{func(o *api.MinderOrder) { o.Error = "gone/error.log" }, "open the file for its errors: open " + w.home + "/gone/error.log: no such file", gpu.Opt[int]{}},
		{func(o *api.MinderOrder) { o.User = "no-such-user-" + full }, "the user no-such-user-" + full + " does not exist any more", gpu.Opt[int]{}},
		{func(o *api.MinderOrder) { o.User, o.UID = "daemon", w.uid+1 }, "", gpu.Opt[int]{}},
		{func(o *api.MinderOrder) { o.Command = nil }, "the order has no command", gpu.Opt[int]{}},
		{func(o *api.MinderOrder) { o.Version = 99 }, "the daemon gave an order of version 99, and this minder understands up to 1", gpu.Opt[int]{}},
		{func(o *api.MinderOrder) { o.Environment = []string{"A=" + strings.Repeat("x", 1<<20)} }, "argument list too long", gpu.Some(126)},
	} {
		run := fmt.Sprintf("1.%d.1", i)
		order := w.order("echo it runs")
		test.change(&order)
		record := w.end(w.minder(run, order), run)
		if !strings.Contains(record.Failure, test.want) || record.Failure == "" || record.Exit != test.exit || record.Ended.IsZero() {
			t.Errorf("want %q: %+v", test.want, record)
		}
	}
}

// What the machine is short of passes, and is none of the job's failures: neither in a minder,
// nor where it is limited.
func TestWhatTheMachineIsShortOf(t *testing.T) {
	for err, want := range map[error]bool{
		&fs.PathError{Op: "open", Path: "/home/ada/berth-train-1.log", Err: syscall.EDQUOT}:          true,
		&fs.PathError{Op: "mkdir", Path: "/sys/fs/cgroup/berth-job-1", Err: syscall.ENOMEM}:          true,
		os.NewSyscallError("fork", syscall.EAGAIN):                                                   true,
		&fs.PathError{Op: "chdir", Path: "/home/ada/gone", Err: syscall.ENOENT}:                      false,
		&fs.PathError{Op: "open", Path: "/sys/fs/cgroup/cgroup.subtree_control", Err: syscall.EROFS}: false,
		&child.ProgramError{Name: "train", Reason: "it is a folder", Exit: child.ExitNotExecutable}:  false,
	} {
		if end := failed(fmt.Errorf("start: %w", err)); end.Short != want || end.Failure == "" {
			t.Errorf("%v: %+v", err, end)
		}
		if errors.Is(noLimits(err), runs.ErrLimits) == want {
			t.Errorf("%v: %v", err, noLimits(err))
		}
	}
}

// A log that cannot be made in the folder of the command is made in the state folder of
// the user.
func TestLogElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if os.Geteuid() != 0 {
		t.Skip("a user may write to the folders of this test")
	}
	order := w.order("pwd")
	order.Directory = "/"
	record := w.end(w.minder("2.0.1", order), "2.0.1")
	want := "/var/tmp/berth-" + strconv.Itoa(nobody) + "/berth-train-17.log"
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(want)) })
	if log, _ := os.ReadFile(want); record.Output != want || string(log) != "/\n" {
		t.Errorf("%+v, %q", record, log)
	}
}

// What the command leaves behind ends with it.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, left := range []string{
		"sleep 1000 &",
		"setsid -f sleep 1000",
		`sh -c 'trap "" TERM; echo > ready; while :; do sleep 1000; done' & until [ -e ready ]; do :; done`,
		"sleep 1000 & kill -STOP $!",
	} {
		run := fmt.Sprintf("3.%d.1", i)
		// The processes of the run hold the pipe open that is the output.
		fifo := filepath.Join(w.home, "fifo"+strconv.Itoa(i))
		if err := errors.Join(unix.Mkfifo(fifo, 0o600), os.Chown(fifo, w.uid, -1)); err != nil {
			t.Fatal(err)
		}
		fd, err := unix.Open(fifo, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		order := w.order(left + "\necho gone")
		order.Output = fifo
		record := w.end(w.minder(run, order), run)
		if record.Exit != gpu.Some(0) {
			t.Errorf("%s: %+v", left, record)
		}
		// Its end comes at once, because nobody has it open for writing.
		n, buffer := 1, make([]byte, 100)
		for n > 0 && err == nil {
			n, err = unix.Read(fd, buffer)
		}
		if err != nil {
			t.Errorf("%s: something still has the output open: %v", left, err)
		}
		_ = unix.Close(fd)
	}
}

// Only one minder gets a run, and none gets a run whose command was started.
func TestOneMinderForARun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fifo := filepath.Join(w.home, "go")
	if err := errors.Join(unix.Mkfifo(fifo, 0o600), os.Chown(fifo, w.uid, -1)); err != nil {
		t.Fatal(err)
	}
	order := w.order("echo started >> count; read line < go")
	first := w.minder("4.0.1", order)
	gate, err := os.OpenFile(fifo, os.O_WRONLY, 0) // waits for the command
	if err != nil {
		t.Fatal(err)
	}
	second := w.launch("4.0.1")
	if err := second.Wait(); err != nil {
		t.Errorf("the second minder: %v: %s", err, second.Stderr)
	}
	record, alive, err := w.Read("4.0.1")
	if other := (process.ID{PID: record.PID, Start: record.Start + 1}); !w.Minds(record.Minder()) || w.Minds(other) {
		t.Error("Minds does not know the process that minds a run")
	}
	if err != nil || !alive || record.PID != first.Process.Pid || record.Started.IsZero() || !record.Ended.IsZero() {
		t.Errorf("%+v, alive %t, %v", record, alive, err)
	}
	_ = first.Process.Kill()
	_ = first.Wait()
	if w.Minds(record.Minder()) {
		t.Error("a process that has ended minds a run")
	}
	record, alive, err = w.Read("4.0.1")
	if err != nil || alive || record.Started.IsZero() || !record.Ended.IsZero() {
		t.Errorf("after the minder was killed: %+v, alive %t, %v", record, alive, err)
	}
	third := w.launch("4.0.1")
	if err := third.Wait(); err != nil {
		t.Errorf("the third minder: %v: %s", err, third.Stderr)
	}
	if count, _ := os.ReadFile(filepath.Join(w.home, "count")); string(count) != "started\n" {
		t.Errorf("the command was started: %q", count)
	}
	unread(t, gate) // the kernel has ended the command with its minder
}

// unread fails unless nobody reads from a pipe, and closes it. A process that was killed is
// gone a moment later.
func unread(t *testing.T, pipe *os.File) {
	t.Helper()
	_ = pipe.SetWriteDeadline(time.Now().Add(time.Minute)) // else a full pipe would be waited for
	err := error(nil)
	for err == nil {
		_, err = pipe.WriteString("x")
	}
	if !errors.Is(err, unix.EPIPE) {
		t.Errorf("somebody reads from it: %v", err)
	}
	_ = pipe.Close()
}

// The machine is asked with its own commands, whatever the PATH of a job is.
func TestSaid(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if got := said("echo", "running"); got != "running" {
		t.Errorf("it said %q", got)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := os.WriteFile(w.Socket, []byte("refused"), 0o600); err != nil {
		t.Fatal(err)
	}
	record := w.end(w.launch("5.0.1"), "5.0.1")
	if !record.Started.IsZero() || record.Failure != "the daemon has no order for this run: it was cancelled" {
		t.Errorf("%+v", record)
	}
}

// A minder that is asked to end before it has started its command does not start it.
func TestAskedBeforeTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	order := w.order("")
	order.Command = []string{"/bin/true", "asked"}
	for try := range 8 { // it may learn that before or after it has its order
		run := fmt.Sprintf("7.0.%d", try+1)
		if record := w.end(w.minder(run, order), run); !record.Started.IsZero() || record.Failure != "it was ended before it could start" {
			t.Errorf("%+v", record)
		}
	}
}

// A minder that nobody answers ends when its record is removed: no daemon knows it then.
func TestForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t) // nobody writes an order
	cmd := w.launch("6.0.1")
	for record := (runs.Record{}); record.PID == 0 && t.Context().Err() == nil; runtime.Gosched() {
		var err error
		if record, _, err = w.Read("6.0.1"); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(w.folder); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the minder ended with %v: %s", err, cmd.Stderr)
	}
}

func TestRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs")
	folder, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "1", "1.2", "../1.2.3", "1.2.3.4", "1.2.x", "-1.2.3", "1.2.3\n"} {
		if _, _, err := folder.Read(name); err == nil {
			t.Errorf("%q is taken for a run", name)
		}
		if err := folder.Remove(name); err == nil {
			t.Errorf("%q is removed", name)
		}
	}
	if record, alive, err := folder.Read("1.2.3"); !reflect.DeepEqual(record, runs.Record{}) || alive || err != nil {
		t.Errorf("a run without a file: %+v, %t, %v", record, alive, err)
	}
	n, err := folder.take("1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if record, alive, err := folder.Read("1.2.3"); !reflect.DeepEqual(record, runs.Record{}) || !alive || err != nil {
		t.Errorf("a run that was taken: %+v, %t, %v", record, alive, err)
	}
	if _, err := folder.take("1.2.3"); !errors.Is(err, errTaken) {
		t.Errorf("taken twice: %v", err)
	}
	long := strings.Repeat("<\x01", 2000)
	for at, step := range map[int64]runs.Record{begunAt: {PID: 7}, startedAt: {Output: long}, endedAt: {Exit: gpu.Some(0)}} {
		if err := n.write(at, step); err != nil {
			t.Error(err)
		}
	}
	if record, _, err := folder.Read("1.2.3"); err != nil || record.PID != 7 || record.Output != long || record.Exit != gpu.Some(0) {
		t.Errorf("%+v, %v", record, err)
	}
	if err := n.write(endedAt, runs.Record{Failure: strings.Repeat("x", 5000)}); err == nil {
		t.Error("a step was written over the next one")
	}
	// A line that is not complete says nothing.
	if _, err := n.file.WriteAt([]byte("{"), endedAt+10); err != nil {
		t.Fatal(err)
	}
	if record, _, err := folder.Read("1.2.3"); err != nil || record.PID != 7 || record.Exit.Known() {
		t.Errorf("%+v, %v", record, err)
	}
	if names, err := folder.List(); err != nil || len(names) != 1 || names[0] != "1.2.3" {
		t.Errorf("%q, %v", names, err)
	}
	if err := errors.Join(n.file.Close(), folder.Remove("1.2.3"), folder.Remove("1.2.3")); err != nil {
		t.Error(err)
	}
}

// Others may not look into the folder, and it is no link to another one.
func TestFolderOfRuns(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/open", 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir + "/open"); err != nil {
		t.Error(err)
	}
	if about, err := os.Stat(dir + "/open"); err != nil || about.Mode().Perm() != 0o700 {
		t.Errorf("its mode is %v, %v", about.Mode(), err)
	}
	if err := os.Symlink("open", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{dir + "/link", dir + "/a/b"} {
		if _, err := Open(bad); err == nil {
			t.Errorf("%s is opened", bad)
		}
	}
}

// ordinary leaves signal 32 out of a set of ignored signals. It belongs to the C library,
// whose posix_spawn, by which make starts tests, leaves it ignored in what it starts.
func ordinary(status string) string {
	return strings.ReplaceAll(status, "0000000080000000", "0000000000000000")
}
