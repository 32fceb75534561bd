package launch

import (
	"strings"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// Whatever is in the environment of a program, the lease's devices are the only
// ones it sees and no limit grows.
func FuzzEnvironment(f *testing.F) {
	for _, seed := range []string{
		"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,roundup_power2_divisions:[256:1,512:2]\nBERTH_LEASE=x",
		"PYTORCH_ALLOC_CONF=per_process_memory_fraction:0.1,,]a[\nXLA_CLIENT_MEM_FRACTION=.01\nXLA_PYTHON_CLIENT_MEM_FRACTION=nan",
		"CUPY_GPU_MEMORY_LIMIT=1%\nCUPY_GPU_MEMORY_LIMIT=99999999999999999999", "=\n=a\nCUDA_VISIBLE_DEVICES\nCUDA_VISIBLE_DEVICES=0,1", "",
	} {
		f.Add([]byte(seed), "2.10.1", int64(4096), byte(1))
	}
	rungs := []string{MPS, Framework, Watchdog, None}
	devices := []gpu.Device{{UUID: "GPU-a", Vendor: gpu.NVIDIA, MemoryTotal: 80 << 10}, {UUID: "GPU-b", Vendor: gpu.AMD, MemoryTotal: 64 << 10}}
	f.Fuzz(func(t *testing.T, text []byte, torch string, memory int64, choice byte) {
		var environ []string
		if len(text) > 0 {
			environ = strings.Split(string(text), "\n")
		}
		l := api.Lease{ID: "a", Fence: 7, EnforcedBy: rungs[choice%4], Parts: []api.LeasePart{{GPU: "GPU-a", Memory: gpu.MiB(max(memory, 0) % (1 << 30))}}}
		changed, _ := Environment(l, devices[:1+int(choice>>2)%2], Ladder{Context: 500, Torch: torch}, environ)
		e := newEditor(changed)
		if visible, _ := e.get("CUDA_VISIBLE_DEVICES"); visible != "GPU-a" {
			t.Errorf("the program sees %q", visible)
		}
		if id, _ := e.get("BERTH_LEASE"); id != "a" {
			t.Errorf("the program has the lease %q", id)
		}
		// A program that makes the changes has that environment.
		again := newEditor(environ)
		changes := Changes(environ, changed)
		for _, c := range changes {
			if name, value, sets := strings.Cut(c, "="); sets {
				again.set(name, value)
			} else {
				again.unset(name)
			}
		}
		if more := Changes(again.list, changed); len(more) > 0 {
			t.Errorf("%q with the changes %q lacks %q", environ, changes, more)
		}
	})
}
