package process

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

func TestFacts(t *testing.T) {
	folder := t.TempDir()
	script := filepath.Join(folder, "embed_service.sh")
	if err := os.WriteFile(script, []byte("read line\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", script)
	cmd.Env = []string{"BERTH_LEASE=embed", "BERTH_FENCE=5"}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = stdin.Close(); _ = cmd.Wait() })
	id, err := Proc().Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	f := Proc().Facts(id)
	if want := kinship.ParseOrigin("embed", "5", os.Geteuid()); f.Origin != want || f.UID != access.KnownUID(os.Geteuid()) {
		t.Errorf("its origin is %v, as %v, want %v", f.Origin, f.UID, want)
	}
	if command := Proc().Said(id).Command(); !slices.Contains(f.Programs, "bash") || !slices.Equal(command, []string{"bash", script}) {
		t.Errorf("it goes by %q, and its command is %q", f.Programs, command)
	}
	if f := Proc().Facts(ID{PID: 1 << 30}); !reflect.DeepEqual(f, kinship.Facts{}) {
		t.Errorf("nobody is %+v", f)
	}
}

func TestFactsOfAWrittenTable(t *testing.T) {
	root := t.TempDir()
	folder := filepath.Join(root, "7")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"comm": "embed\n", "cgroup": "0::/system.slice/embed.service\n", "status": "Name:\tembed\nUid:\t7\t8\t8\t8\n", "cmdline": "/srv/embed\x00--port\x001\x00",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := Table{root: root}.Facts(ID{PID: 7})
	want := kinship.Facts{UID: access.KnownUID(8), Cgroups: []string{"/system.slice/embed.service"}, Programs: []string{"embed"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("it is %+v, want %+v", got, want)
	}
}

func TestLoad(t *testing.T) {
	for text, want := range map[string]float64{"0.52 0.58 0.59 1/389 12\n": 0.52, "": -1, "NaN 1 1": -1, "-1 1": -1} {
		table := Table{root: t.TempDir()}
		if err := os.WriteFile(filepath.Join(table.root, "loadavg"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if load, err := table.Load(); (err == nil) != (want >= 0) || err == nil && load != want {
			t.Errorf("%q: %v, %v", text, load, err)
		}
	}
}

func TestHasGPUOpen(t *testing.T) {
	for file, want := range map[string]bool{
		"/dev/nvidia-uvm": true, "/dev/kfd": true, "/dev/dri/renderD128": true,
		"/dev/nvidiactl": false, "/dev/nvidia0": false, "/dev/dri/card0": false, "/home/ada/nvidia-uvm": false,
	} {
		table := written(t, "Uid:\t1\t1\t1\t1\n")
		if err := errors.Join(os.Mkdir(table.file(7, "fd"), 0o700), os.Symlink(file, table.file(7, "fd/3"))); err != nil {
			t.Fatal(err)
		}
		id, err := table.Identify(7)
		if err != nil {
			t.Fatal(err)
		}
		if got := table.HasGPUOpen(id); got != want {
			t.Errorf("%s: %v", file, got)
		}
		if table.HasGPUOpen(ID{PID: 7, Start: id.Start + 1}) {
			t.Errorf("%s: an earlier process of the same pid has it open", file)
		}
	}
}

// However many files a process has open, a look at them has an end.
func TestOpenFilesAreBounded(t *testing.T) {
	table := written(t, "")
	folder := table.file(7, "fd")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for fd := range mostOpen + 1000 {
		if err := os.Symlink("/dev/null", filepath.Join(folder, strconv.Itoa(fd))); err != nil {
			t.Fatal(err)
		}
	}
	seen := 0
	for range table.OpenFiles(7) {
		seen++
	}
	if seen != mostOpen {
		t.Errorf("%d open files were looked at", seen)
	}
}
