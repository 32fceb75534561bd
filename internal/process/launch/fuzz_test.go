package launch

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// Whatever a launcher sends is a question or none. A question that is plain asks
// for something that can be asked for.
func FuzzReadQuestion(f *testing.F) {
	for _, seed := range []string{
		"f--memory\x00f8GiB\x00f--gpus=2\x00cpython3\x00c-u\x00ctrain.py\x00eCUDA_VISIBLE_DEVICES=0\x00t2.10.1\x00",
		"f--timeout=90s\x00f--where\x00fname~H200\x00f--compute=30%\x00cenv\x00c-u\x00cA\x00cB=1\x00ctimeout\x00c5\x00cbash\x00c-c\x00cx.py\x00",
		"ctrue\x00", "c\x00", "f--\x00ctrue\x00", "ctrue", "x\x00", "", "\x00", "cuv\x00crun\x00c--with\x00", "cpython\x00c-m\x00ctorch.distributed.run\x00c--\x00", "cperl\x00c-I\x00",
	} {
		f.Add([]byte(seed))
	}
	policies := []string{"pack", "spread"}
	f.Fuzz(func(t *testing.T, text []byte) {
		q, ok := ReadQuestion(text)
		if !ok {
			return
		}
		if len(q.Command) == 0 {
			t.Fatalf("%q has no command", text)
		}
		for _, list := range [][]string{q.Flags, q.Command, q.Environ, {q.Torch}} {
			for _, word := range list {
				if strings.Contains(word, "\x00") {
					t.Fatalf("%q was read as %q", text, word)
				}
			}
		}
		r, plain := ParsePlain(q.Flags, policies)
		if !plain || r.Finish(q.Command) != nil {
			return
		}
		if r.GPUs < 0 || r.GPUs > 1024 || r.Slots.Or(1) < 0 || r.Memory < 0 || r.Compute < 0 || r.Compute > 100 || !(r.Timeout.Or(0) >= 0) || r.Called == "" {
			t.Errorf("%q asks for %+v", q.Flags, r)
		}
		if r.Policy != "" && !slices.Contains(policies, r.Policy) {
			t.Errorf("%q chooses by %q", q.Flags, r.Policy)
		}
	})
}

// Whatever is in the environment of a program, the lease's devices are the only
// ones it sees, no limit grows, and the answer has the form that the C side reads.
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
		answer := Answer("a note", changes)
		if !bytes.HasSuffix(answer, []byte("\x00.\x00")) || bytes.Count(answer, []byte{0}) != len(changes)+2 {
			t.Errorf("the answer %q has not %d changes", answer, len(changes))
		}
	})
}
