package nvml_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/gpu"
)

// runs makes a GPU report these processes.
func (f *fake) runs(compute, mps, graphics []nvml.ProcessInfo) {
	list := func(l []nvml.ProcessInfo) func() ([]nvml.ProcessInfo, nvml.Return) {
		return func() ([]nvml.ProcessInfo, nvml.Return) { return l, nvml.SUCCESS }
	}
	f.tune = func(h *mock.Device) {
		h.GetComputeRunningProcessesFunc = list(compute)
		h.GetMPSComputeRunningProcessesFunc = list(mps)
		h.GetGraphicsRunningProcessesFunc = list(graphics)
	}
}

func TestProcesses(t *testing.T) {
	r := newRig(t, 1)
	r.gpus[0].runs(
		[]nvml.ProcessInfo{
			{Pid: 300, UsedGpuMemory: 3 << 30},
			{Pid: 200, UsedGpuMemory: ^uint64(0)},
			{Pid: 100, UsedGpuMemory: 1 << 30, GpuInstanceId: 1},
			{Pid: 100, UsedGpuMemory: 1 << 30, GpuInstanceId: 2},
		},
		[]nvml.ProcessInfo{{Pid: 400, UsedGpuMemory: 5 << 20}, {Pid: 300, UsedGpuMemory: 3 << 30}},
		[]nvml.ProcessInfo{{Pid: 300, UsedGpuMemory: 4 << 30}, {Pid: 500, UsedGpuMemory: 7 << 20}},
	)
	write(t, filepath.Join(r.roots.Proc, "300/comm"), "python\n")
	want := []gpu.Process{
		{PID: 100, Kind: gpu.Compute, Memory: gpu.Some(gpu.MiB(2048))},
		{PID: 200, Kind: gpu.Compute},
		{PID: 300, Kind: gpu.Compute, Memory: gpu.Some(gpu.MiB(4096)), Name: "python"},
		{PID: 400, Kind: gpu.Compute, Memory: gpu.Some(gpu.MiB(5))},
		{PID: 500, Kind: gpu.Graphics, Memory: gpu.Some(gpu.MiB(7))},
	}
	got := fast(t, devices(t, r.backend())[0]).Processes
	if diff := cmp.Diff(want, got, compareOpt); diff != "" {
		t.Errorf("processes (-want +got):\n%s", diff)
	}
}

// A name is read once for a process, and again when its number is another's.
func TestProcessNames(t *testing.T) {
	r := newRig(t, 1)
	r.gpus[0].runs([]nvml.ProcessInfo{{Pid: 77}}, nil, nil)
	dev := devices(t, r.backend())[0]
	dir := filepath.Join(r.roots.Proc, "77")
	born := func(name string, at time.Time) {
		write(t, filepath.Join(dir, "comm"), name+"\n")
		if err := os.Chtimes(dir, at, at); err != nil {
			t.Fatal(err)
		}
	}
	name := func() string { return fast(t, dev).Processes[0].Name }

	first, second := time.Unix(1000, 0), time.Unix(2000, 0)
	born("python", first)
	if got := name(); got != "python" {
		t.Errorf("name is %q, want python", got)
	}
	born("other", first)
	if got := name(); got != "python" {
		t.Errorf("name is %q, want it from memory: it is the same process", got)
	}
	born("a\x1b[2J\nb", time.Unix(1500, 0))
	if got := name(); got != "a\ufffd[2J b" {
		t.Errorf("name is %q, want nothing that a terminal obeys", got)
	}
	born("other", second)
	if got := name(); got != "other" {
		t.Errorf("name is %q, want other: it is another process with the same number", got)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if got := name(); got != "" {
		t.Errorf("name is %q, want none for a process that has ended", got)
	}
}

// Whatever the driver lists, every process is there once, sorted, with at
// least the memory of its largest entry.
func TestProcessesProperty(t *testing.T) {
	r := newRig(t, 1)
	entry := rapid.Custom(func(t *rapid.T) nvml.ProcessInfo {
		return nvml.ProcessInfo{
			Pid:           rapid.Uint32Range(1, 6).Draw(t, "pid"),
			UsedGpuMemory: rapid.SampledFrom([]uint64{0, 1 << 20, 9 << 30, ^uint64(0)}).Draw(t, "memory"),
		}
	})
	rapid.Check(t, func(rt *rapid.T) {
		lists := [3][]nvml.ProcessInfo{}
		for i := range lists {
			lists[i] = rapid.SliceOfN(entry, 0, 6).Draw(rt, fmt.Sprint("list", i))
		}
		r.gpus[0].runs(lists[0], lists[1], lists[2])
		got := fast(t, devices(t, r.backend())[0]).Processes
		if !slices.IsSortedFunc(got, func(a, b gpu.Process) int { return a.PID - b.PID }) {
			rt.Fatalf("not in order of pid: %v", got)
		}
		at := map[int]gpu.Process{}
		for _, p := range got {
			at[p.PID] = p
		}
		if len(at) != len(got) {
			rt.Fatalf("a process is listed twice: %v", got)
		}
		for _, p := range slices.Concat(lists[:]...) {
			q, ok := at[int(p.Pid)]
			if !ok {
				rt.Fatalf("process %d is missing from %v", p.Pid, got)
			}
			if known := p.UsedGpuMemory != ^uint64(0); known && q.Memory.Or(-1) < gpu.MiBOf(p.UsedGpuMemory) {
				rt.Fatalf("process %d has %v, less than the driver said", p.Pid, q.Memory)
			}
		}
	})
}
