package sim_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/sim"
)

func TestGuests(t *testing.T) {
	dir := t.TempDir()
	dev := scan(t, open(t, scenario(t, "devices: h200"), sim.Guests(dir)))[0]
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
