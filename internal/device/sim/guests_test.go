package sim_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/sim"
)

func TestGuests(t *testing.T) {
	dir := t.TempDir()
	dev := scan(t, open(t, scenario(t, "devices: h200"), sim.Options{Guests: dir}))[0]
	if n := len(fast(t, dev).Processes); n != 0 {
		t.Errorf("%d processes before there is any file; want none", n)
	}

	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Process.Kill() })
	pid := child.Process.Pid
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, "SIM-h200-0", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(when string, processes int, used gpu.MiB, load gpu.Percent) {
		t.Helper()
		s := fast(t, dev)
		if len(s.Processes) != processes || s.MemoryUsed != gpu.Some(615+used) || s.Utilization != gpu.Some(load) {
			t.Errorf("%s: %v, %v MiB, %v %%; want %d processes, 615+%d, %v", when, s.Processes, s.MemoryUsed, s.Utilization, processes, used, load)
		}
	}

	write(strconv.Itoa(pid), `{"memory_mb": 4096, "load": 50}`)
	expect("a living guest", 1, 4096, 50)
	if p := fast(t, dev).Processes[0]; p.PID != pid || p.Name != "sleep" {
		t.Errorf("the guest is %+v; want %d, sleep", p, pid)
	}
	write(strconv.Itoa(pid), `{"memory_mb": 100}`)
	expect("it let go of memory", 1, 100, 0)
	write(strconv.Itoa(pid), `{"memory_mb": 1`)
	expect("it is writing", 0, 0, 0)
	write(strconv.Itoa(pid), `{"memory_mb": -5}`)
	expect("nonsense", 0, 0, 0)
	write(strconv.Itoa(pid), `{"memory_mb": 100, "start_time": 1}`)
	expect("somebody else had that pid", 0, 0, 0)
	write(strconv.Itoa(pid), `{"memory_mb": 100}`)
	write("README", "not a pid")
	write("-7", `{"memory_mb": 100}`)
	write(fmt.Sprint(1<<30), `{"memory_mb": 100}`)
	expect("beside files that are no guests", 1, 100, 0)

	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	expect("a dead guest", 0, 0, 0)
}

// guestsOf opens a simulated GPU with guests, and returns what counts there and
// the folder of its guest files.
func guestsOf(t *testing.T) (count func() []int, dir string) {
	t.Helper()
	root := t.TempDir()
	dev := scan(t, open(t, scenario(t, "devices: h200"), sim.Options{Guests: root}))[0]
	dir = filepath.Join(root, "SIM-h200-0")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return func() (pids []int) {
		for _, p := range fast(t, dev).Processes {
			pids = append(pids, p.PID)
		}
		return pids
	}, dir
}

func TestGuestFilesThatAreRefused(t *testing.T) {
	count, dir := guestsOf(t)
	const text = `{"memory_mb": 100}`
	elsewhere := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(elsewhere, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, strconv.Itoa(os.Getpid()))
	for name, make := range map[string]func() error{
		"a link":                  func() error { return os.Symlink(elsewhere, path) },
		"a hard link":             func() error { return os.Link(elsewhere, path) },
		"a pipe without a writer": func() error { return syscall.Mkfifo(path, 0o600) },
		"a folder":                func() error { return os.Mkdir(path, 0o700) },
		"a huge file": func() error {
			return os.WriteFile(path, []byte(text+strings.Repeat(" ", 1<<20)), 0o600)
		},
	} {
		if err := make(); err != nil {
			t.Fatal(name, err)
		}
		if pids := count(); len(pids) != 0 {
			t.Errorf("%s counts for process %v", name, pids)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if pids := count(); len(pids) != 1 {
		t.Errorf("a file counts for the processes %v, want one", pids)
	}
}

func TestGuestFileOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("giving a file to another user needs root")
	}
	count, dir := guestsOf(t)
	path := filepath.Join(dir, strconv.Itoa(os.Getpid()))
	if err := os.WriteFile(path, []byte(`{"memory_mb": 100}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if pids := count(); len(pids) != 0 {
		t.Errorf("user 65534 charged memory to process %v", pids)
	}
}

func TestGuestInAContainer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making a PID namespace needs root")
	}
	if _, err := exec.LookPath("unshare"); err != nil {
		t.Skip(err)
	}
	count, dir := guestsOf(t)
	// The guest writes its file as a program in a container does: all it knows
	// are its own pid and the name of its namespace.
	cmd := exec.Command("unshare", "-pf", "--mount-proc", "sh", "-c",
		`printf '{"memory_mb": 100, "pid_namespace": "%s"}' "$(readlink /proc/self/ns/pid)" > $$ && echo $$ && read line`)
	cmd.Dir = dir
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	end := func() {
		if !ended {
			ended = true
			_ = stdin.Close()
			_ = cmd.Wait()
		}
	}
	t.Cleanup(end)
	if lines := bufio.NewScanner(stdout); !lines.Scan() {
		t.Skip("this machine does not let root make a PID namespace")
	} else if lines.Text() != "1" {
		t.Fatalf("the guest is process %q of its namespace, want 1", lines.Text())
	}
	for range 2 { // the second time it is known already
		if pids := count(); len(pids) != 1 || pids[0] <= 1 {
			t.Errorf("process 1 of the namespace is %v here", pids)
		}
	}
	end()
	if pids := count(); len(pids) != 0 {
		t.Errorf("after its end %v counts", pids)
	}
}
