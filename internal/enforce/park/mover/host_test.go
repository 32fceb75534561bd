package mover_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/enforce/park/mover"
	"github.com/berth-gpu/berth/internal/process"
)

func TestMachine(t *testing.T) {
	total, available, err := mover.Machine{Processes: process.Proc()}.Memory()
	if err != nil || total <= 0 || available <= 0 || available > total {
		t.Errorf("this machine has %s, and %s to spare: %v", total, available, err)
	}
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := mover.Machine{Root: root, Processes: process.Proc().With(newCard("GPU-A", 1))}
	if _, _, err := m.Memory(); err == nil {
		t.Error("a machine without meminfo")
	}
	write("proc/meminfo", "MemTotal:       131072000 kB\nMemFree:        1 kB\n")
	if _, _, err := m.Memory(); err == nil {
		t.Error("a machine that does not say what is available")
	}
	write("proc/meminfo", "MemTotal:       131072000 kB\nMemFree:        1 kB\nMemAvailable:   98304000 kB\n")
	if total, available, err := m.Memory(); total != 128000 || available != 96000 || err != nil {
		t.Errorf("%d, %d, %v", total, available, err)
	}
	own := process.Proc().Cgroups(os.Getpid())
	if len(own) == 0 {
		t.Skip("this process is in no control group")
	}
	id := move.Process{PID: os.Getpid()}
	if limit := m.Group([]move.Process{id}); limit.Known() {
		t.Errorf("without files there is a limit of %s", limit.Or(0))
	}
	write("sys/fs/cgroup"+own[0]+"/memory.max", "max\n")
	write("sys/fs/cgroup"+own[0]+"/memory.current", "1048576\n")
	if limit := m.Group([]move.Process{id}); limit.Known() {
		t.Errorf("with max there is a limit of %s", limit.Or(0))
	}
	write("sys/fs/cgroup"+own[0]+"/memory.max", "1073741824\n")
	write("sys/fs/cgroup"+own[0]+"/memory.current", "805306368\n")
	write("sys/fs/cgroup"+own[0]+"/memory.stat", "anon 1\ninactive_file 268435456\n")
	if limit := m.Group([]move.Process{id}); limit != gpu.Some[gpu.MiB](512) {
		t.Errorf("%s are left, and not 512 MiB", limit.Or(0))
	}
}
