package process

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-gpu/berth/internal/process/kinship"
)

// family starts a shell with a child that outlives it, and returns both.
func family(t *testing.T) (shell *exec.Cmd, grandchild ID) {
	t.Helper()
	// The grandchild says who it is itself: by then it has become what it is,
	// and its environment with it.
	shell = exec.Command("sh", "-c", `sh -c 'echo $$; read line <&3' & read line`)
	keep, stdin, err := os.Pipe() // ends the grandchild when the test does
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = keep.Close(), stdin.Close() })
	shell.ExtraFiles = []*os.File{keep}
	shell.Env = append(os.Environ(), "BERTH_LEASE=of the shell")
	in, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = shell.Process.Kill()
		_ = shell.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	grandchild, err = Proc().Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = Proc().Signal(kinship.Authority(), grandchild, syscall.SIGKILL) })
	return shell, grandchild
}

func TestTree(t *testing.T) {
	table := Proc()
	shell, grandchild := family(t)
	root, err := table.Identify(shell.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if tree := table.Family().Tree([]ID{root}); len(tree) != 2 || !slices.Contains(tree, root) || !slices.Contains(tree, grandchild) {
		t.Errorf("the tree of %v is %v, want it and %v", root, tree, grandchild)
	}
	if tree := table.Family().Tree([]ID{{PID: root.PID, Start: root.Start + 1}}); len(tree) != 0 {
		t.Errorf("the tree of a process with another start time is %v", tree)
	}
	if tree := table.Family().Tree(nil); len(tree) != 0 {
		t.Errorf("the tree of nobody is %v", tree)
	}
}

func TestSignalIsForThatVeryProcess(t *testing.T) {
	table := Proc()
	cmd := child(t)
	id, err := table.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Signal(kinship.Authority(), ID{PID: id.PID, Start: id.Start + 1}, syscall.SIGKILL); !errors.Is(err, ErrGone) {
		t.Errorf("a signal to an earlier owner of the pid: %v", err)
	}
	if !table.Alive(id) {
		t.Fatal("it was killed")
	}
	if err := table.Signal(kinship.Authority(), id, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	failed := (*exec.ExitError)(nil)
	if err := cmd.Wait(); !errors.As(err, &failed) || failed.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v", err)
	}
	if err := table.Signal(kinship.Authority(), id, syscall.SIGTERM); !errors.Is(err, ErrGone) {
		t.Errorf("a signal to a process that has ended: %v", err)
	}
}

func TestVariable(t *testing.T) {
	_, grandchild := family(t)
	if v, ok := Proc().Said(grandchild).Variable("BERTH_LEASE"); !ok || v != "of the shell" {
		t.Errorf("it inherited %q, %v", v, ok)
	}
	if v, ok := Proc().Said(grandchild).Variable("BERTH_LEAS"); ok {
		t.Errorf("a name that is only the beginning of another has the value %q", v)
	}
	if v, ok := Proc().Said(ID{PID: 1 << 30}).Variable("PATH"); ok {
		t.Errorf("nobody has the value %q", v)
	}
}

func TestOpeners(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "nvidia0"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd := exec.Command("cat")
	cmd.ExtraFiles = []*os.File{file, file}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found := Proc().Openers([]string{file.Name(), "/dev/nvidia-nothing"})
	_ = in.Close()
	_ = cmd.Wait()
	pids := found[file.Name()]
	slices.Sort(pids)
	want := []int{os.Getpid(), cmd.Process.Pid}
	slices.Sort(want)
	if !slices.Equal(pids, want) || len(found) != 1 {
		t.Errorf("%v have it open, want %v", found, want)
	}
}
