package process

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestInNamespaceTranslatesPidsOfContainers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making a PID namespace needs root")
	}
	if _, err := exec.LookPath("unshare"); err != nil {
		t.Skip(err)
	}
	// The shell is pid 1 of the new namespace, and says what it is called there.
	cmd := exec.Command("unshare", "-pf", "--mount-proc", "sh", "-c", `readlink /proc/self/ns/pid && echo $$ && read line`)
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
			_ = stdin.Close() // ends the shell, and unshare after it
			_ = cmd.Wait()
		}
	}
	t.Cleanup(end)
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() {
		t.Skip("this machine does not let root make a PID namespace")
	}
	namespace := lines.Text()
	if lines.Scan(); lines.Text() != "1" {
		t.Fatalf("the shell is process %q of its namespace, want 1", lines.Text())
	}

	outer, err := Proc().InNamespace(namespace, 1)
	if err != nil {
		t.Fatal(err)
	}
	if parent, err := Proc().Parent(outer); err != nil || parent != cmd.Process.Pid {
		t.Errorf("process 1 of %s is %d, child of %d, %v; want a child of %d", namespace, outer, parent, err, cmd.Process.Pid)
	}
	if pid, err := Proc().InNamespace(namespace, 4711); !errors.Is(err, ErrGone) {
		t.Errorf("process 4711 of %s is %d, %v; want %v", namespace, pid, err, ErrGone)
	}
	end()
	if pid, err := Proc().InNamespace(namespace, 1); !errors.Is(err, ErrGone) {
		t.Errorf("process 1 of a namespace that has ended is %d, %v; want %v", pid, err, ErrGone)
	}
}

// A process that has ended sees nothing, whoever has its pid now.
func TestSeesOurFiles(t *testing.T) {
	me, err := Proc().Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if !Proc().SeesOurFiles(me) {
		t.Skip("the test is in a mount namespace of its own")
	}
	if Proc().SeesOurFiles(ID{PID: me.PID, Start: me.Start - 1}) {
		t.Error("a process that has ended sees what another one with its pid sees")
	}
}

func TestInNamespaceOfThisProcess(t *testing.T) {
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	if pid, err := Proc().InNamespace(namespace, os.Getpid()); err != nil || pid != os.Getpid() {
		t.Errorf("InNamespace = %d, %v; want %d", pid, err, os.Getpid())
	}
}

func TestInNamespaceWantsExactlyOneLivingProcess(t *testing.T) {
	root := t.TempDir()
	process := func(pid int, namespace, state, nspid string) {
		t.Helper()
		folder := filepath.Join(root, strconv.Itoa(pid), "ns")
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		status := fmt.Sprintf("Name:\tNSpid: 3\nState:\t%s\nNSpid:\t%s\n", state, nspid)
		if err := os.WriteFile(filepath.Join(root, strconv.Itoa(pid), "status"), []byte(status), 0o644); err != nil {
			t.Fatal(err)
		}
		if namespace == "" {
			return // as if the link could not be read
		}
		if err := os.Symlink(namespace, filepath.Join(folder, "pid")); err != nil {
			t.Fatal(err)
		}
	}
	process(10, "pid:[1]", "S (sleeping)", "10")
	process(20, "pid:[2]", "S (sleeping)", "20\t1")
	process(21, "pid:[2]", "S (sleeping)", "21\t7")
	process(30, "pid:[3]", "S (sleeping)", "30\t1")
	process(40, "pid:[4]", "S (sleeping)", "40\t20\t1") // nested: also 20 in the middle
	process(50, "pid:[5]", "Z (zombie)", "50\t1")
	process(60, "pid:[6]", "S (sleeping)", "60\t1")
	process(61, "pid:[6]", "S (sleeping)", "61\t1")
	process(70, "", "S (sleeping)", "70\t1")
	process(80, "pid:[8]", "S (sleeping)", "80\tx")

	table := Table{root: root}
	for _, test := range []struct {
		namespace string
		inner     int
		want      int // 0: ErrGone
	}{
		{"pid:[1]", 10, 10},
		{"pid:[2]", 1, 20},
		{"pid:[2]", 7, 21},
		{"pid:[2]", 20, 0},
		{"pid:[3]", 1, 30},
		{"pid:[4]", 1, 40},
		{"pid:[4]", 20, 0},
		{"pid:[5]", 1, 0},
		{"pid:[6]", 1, 0},
		{"pid:[8]", 0, 0},
		{"pid:[9]", 1, 0},
		{"", 1, 0},
	} {
		pid, err := table.InNamespace(test.namespace, test.inner)
		if test.want == 0 && !errors.Is(err, ErrGone) {
			t.Errorf("process %d of %q is %d, %v; want %v", test.inner, test.namespace, pid, err, ErrGone)
		}
		if test.want != 0 && (err != nil || pid != test.want) {
			t.Errorf("process %d of %q is %d, %v; want %d", test.inner, test.namespace, pid, err, test.want)
		}
	}
	if _, err := table.InNamespace("pid:[9]", 4); err == nil || !strings.Contains(err.Error(), "pid:[9]") {
		t.Errorf("the error does not name the namespace: %v", err)
	}
}
