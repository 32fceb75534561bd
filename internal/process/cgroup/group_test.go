package cgroup

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tree writes files below a folder, and returns it.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// The files that the kernel makes in a group are written beforehand.
func TestMakeGroup(t *testing.T) {
	half := Limits{CPUs: 0.5, Memory: 1 << 30}
	const v2 = "40 30 0:35 / TOP rw - cgroup2 none rw\n"
	const v1 = "30 20 0:26 / TOP/memory rw - cgroup cgroup rw,memory\n31 20 0:26 / TOP/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
	for name, test := range map[string]struct {
		mounts, own string
		files       map[string]string
		limits      Limits
		want        map[string]string // what the files say then
		group       Group
		fails       string
	}{
		"v2, beside the daemon": {
			mounts: v2, own: "0::/a/daemon\n", limits: half,
			files: map[string]string{
				"a/daemon/cgroup.controllers": "memory pids\n", "a/cgroup.controllers": "cpu memory pids\n", "a/cgroup.subtree_control": "memory pids\n",
				"a/job/memory.max": "max", "a/job/cpu.max": "max 100000", "a/job/memory.swap.max": "max",
			},
			want: map[string]string{
				"a/job/memory.max": "1073741824", "a/job/cpu.max": "50000 100000", "a/job/memory.swap.max": "0", "a/cgroup.subtree_control": "+cpury pids\n",
			},
			group: Group{"a/job"},
		},
		"v2, without limits": {
			mounts: v2, own: "0::/a/daemon\n", files: map[string]string{"a/daemon/x": ""}, group: Group{"a/daemon/job"},
		},
		"v2, without the controller": {
			mounts: v2, own: "0::/a\n", limits: half, files: map[string]string{"a/cgroup.controllers": "cpu\n", "cgroup.controllers": "cpu\n", "a/cgroup.subtree_control": ""},
			fails: "has no controller memory",
		},
		"v2, both controllers with one write": {
			mounts: v2, own: "0::/a\n", limits: half,
			files: map[string]string{
				"a/cgroup.controllers": "cpu memory\n", "a/cgroup.subtree_control": "",
				"a/job/memory.max": "max", "a/job/cpu.max": "max 100000", "a/job/memory.swap.max": "max",
			},
			want:  map[string]string{"a/cgroup.subtree_control": "+memory +cpu"},
			group: Group{"a/job"},
		},
		"v2, the error of the nearest group": {
			mounts: v2, own: "0::/a/b\n", limits: half, files: map[string]string{
				"a/b/cgroup.controllers": "memory\n", "a/b/cgroup.subtree_control": "", "a/cgroup.controllers": "cpu\n", "cgroup.controllers": "pids\n", "a/cgroup.subtree_control": "",
			},
			want:  map[string]string{"a/b/cgroup.subtree_control": ""},
			fails: "/a/b has no controller cpu",
		},
		"v1": {
			mounts: v1, own: "4:memory:/\n3:cpu,cpuacct:/d\n", limits: half,
			files: map[string]string{"memory/job/memory.limit_in_bytes": "", "cpu/d/job/cpu.cfs_period_us": "", "cpu/d/job/cpu.cfs_quota_us": ""},
			want:  map[string]string{"memory/job/memory.limit_in_bytes": "1073741824", "cpu/d/job/cpu.cfs_period_us": "100000", "cpu/d/job/cpu.cfs_quota_us": "50000"},
			group: Group{"memory/job", "cpu/d/job"},
		},
		"v1 for the memory, v2 for the rest": {
			mounts: v1[:strings.Index(v1, "\n")+1] + strings.ReplaceAll(v2, "TOP", "TOP/unified"), own: "4:memory:/\n0::/\n", limits: Limits{Memory: 1},
			files: map[string]string{"memory/job/memory.limit_in_bytes": "", "unified/x": ""},
			want:  map[string]string{"memory/job/memory.limit_in_bytes": "1"},
			group: Group{"memory/job", "unified/job"},
		},
		"no control groups": {mounts: "", own: "", limits: half, fails: "no cgroup v2"},
	} {
		root := tree(t, test.files)
		got, err := makeGroup(strings.ReplaceAll(test.mounts, "TOP", root), test.own, "job", test.limits)
		if test.fails != "" {
			if err == nil || !strings.Contains(err.Error(), test.fails) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		var want Group
		for _, folder := range test.group {
			want = append(want, filepath.Join(root, folder))
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, want)
		}
		for file, text := range test.want {
			if said, _ := os.ReadFile(filepath.Join(root, file)); string(said[:min(len(said), len(text))]) != text {
				t.Errorf("%s: %s says %q", name, file, said)
			}
		}
	}
}

// A real group takes in a process and everything that it starts, and ends all of it.
func TestGroup(t *testing.T) {
	made, err := Make("berth-test-group", Limits{})
	if err != nil {
		t.Skip(err)
	}
	// The shell waits for its children, and one of them has left its session.
	cmd := exec.Command("sh", "-c", `echo $$ > "$1/cgroup.procs" && setsid -f sleep 1000 && echo in && sleep 1000`, "sh", made[len(made)-1])
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if err := made.Remove(); err != nil {
		t.Error(err)
	}
	// The output ends when the last of them is gone.
	if n, err := out.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("%d, %v", n, err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it was not killed")
	}
	if err := made.Remove(); err != nil {
		t.Errorf("again: %v", err)
	}
}

// A process that is in a folder already is not moved there again.
func TestEnter(t *testing.T) {
	self := strconv.Itoa(os.Getpid())
	root := tree(t, map[string]string{"in/cgroup.procs": "1\n" + self + "\n", "out/cgroup.procs": "1\n"})
	group := Group{filepath.Join(root, "in"), filepath.Join(root, "out")}
	if err := group.Enter(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"in": "1\n" + self + "\n", "out": self} {
		if text, err := os.ReadFile(filepath.Join(root, name, "cgroup.procs")); err != nil || !strings.HasPrefix(string(text), want) {
			t.Errorf("%s: %q, %v; want %q", name, text, err, want)
		}
	}
	if f := group.Open(); f != nil {
		t.Errorf("%s is taken for a folder of cgroup v2", f.Name())
	}
}

// A process can be started in a group.
func TestStartInGroup(t *testing.T) {
	group, err := Make("berth-test-start-"+strconv.Itoa(os.Getpid()), Limits{})
	if err != nil {
		t.Skipf("control groups cannot be made here: %v", err)
	}
	t.Cleanup(func() {
		if err := group.Remove(); err != nil {
			t.Error(err)
		}
	})
	folder := group.Open()
	if folder == nil {
		t.Fatal("the group has no folder of cgroup v2")
	}
	defer folder.Close()
	cmd := exec.Command("/bin/cat", "/proc/self/cgroup")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(folder.Fd())}
	text, err := cmd.Output()
	if err != nil {
		t.Skipf("this kernel starts no process in a group: %v", err)
	}
	if !strings.Contains(string(text), filepath.Base(group[0])) {
		t.Errorf("the process is in %s, want %s", text, group[0])
	}
}

// Several who find out at the same time whether programs can be limited are not in each
// other's way.
func TestCanLimitAtTheSameTime(t *testing.T) {
	if err := CanLimit(); err != nil {
		t.Skip(err)
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 5 {
				if err := CanLimit(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
