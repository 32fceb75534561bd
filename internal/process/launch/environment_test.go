package launch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

const h200 = gpu.MiB(143771)

// held is a lease of so much memory on each of some devices.
type held struct {
	api.Lease
	devices []gpu.Device
}

func leased(enforcedBy string, memory gpu.MiB, devices ...gpu.Device) held {
	h := held{api.Lease{ID: "train-7", Fence: 42, EnforcedBy: enforcedBy}, devices}
	for i := range devices {
		if devices[i].MemoryTotal == 0 {
			devices[i].MemoryTotal = h200
		}
		h.Parts = append(h.Parts, api.LeasePart{GPU: devices[i].UUID, Memory: memory})
	}
	return h
}

func nvidia(uuid string) gpu.Device { return gpu.Device{UUID: uuid, Vendor: gpu.NVIDIA} }
func amd(uuid string) gpu.Device    { return gpu.Device{UUID: uuid, Vendor: gpu.AMD} }

// identity is what every program is told, for the leases above.
func identity(memory gpu.MiB, uuids string) []string {
	return []string{"BERTH_LEASE=train-7", "BERTH_FENCE=42", fmt.Sprintf("BERTH_MEMORY_MB=%d", memory), "BERTH_GPUS=" + uuids}
}

func TestEnvironment(t *testing.T) {
	one, two := nvidia("GPU-a"), nvidia("GPU-b")
	// 4096 MiB less a context of 500: 3596 MiB, of 143771.
	const share, bytes = "0.025011", "3770679296"
	framework := []string{
		"CUPY_GPU_MEMORY_LIMIT=" + bytes,
		"XLA_PYTHON_CLIENT_MEM_FRACTION=" + share,
		"PYTORCH_CUDA_ALLOC_CONF=per_process_memory_fraction:" + share, "PYTORCH_ALLOC_CONF=per_process_memory_fraction:" + share,
		"TF_FORCE_GPU_ALLOW_GROWTH=true",
	}
	visible := func(uuids string) []string {
		return []string{"CUDA_VISIBLE_DEVICES=" + uuids, "CUDA_DEVICE_ORDER=PCI_BUS_ID"}
	}
	for name, test := range map[string]struct {
		lease   held
		ladder  Ladder
		environ []string
		want    []string // beside what was there
		gone    []string // names
	}{
		"slots only": {
			lease: leased(None, 0, one),
			want:  slices.Concat(identity(0, "GPU-a"), visible("GPU-a")),
		},
		"watchdog, two devices": {
			lease: leased(Watchdog, 4096, one, two),
			want:  slices.Concat(identity(4096, "GPU-a,GPU-b"), visible("GPU-a,GPU-b")),
		},
		"an instance of a device": {
			lease: leased(Watchdog, 4096, nvidia("MIG-17")),
			want:  slices.Concat(identity(4096, "MIG-17"), visible("MIG-17")),
		},
		"what was visible before": {
			lease:   leased(None, 0, one),
			environ: []string{"CUDA_VISIBLE_DEVICES=3", "A=b", "CUDA_VISIBLE_DEVICES=4"},
			want:    slices.Concat(identity(0, "GPU-a"), visible("GPU-a"), []string{"A=b"}),
		},
		"where the daemon is": {
			lease: leased(None, 0, one), ladder: Ladder{Socket: "/run/b.sock"},
			want: slices.Concat(identity(0, "GPU-a"), visible("GPU-a"), []string{"BERTH_SOCKET=/run/b.sock"}),
		},
		"AMD": {
			lease:   leased(None, 0, amd("GPU-5f"), amd("GPU-6f")),
			environ: []string{"CUDA_VISIBLE_DEVICES=1", "GPU_DEVICE_ORDINAL=5,6"},
			want:    slices.Concat(identity(0, "GPU-5f,GPU-6f"), []string{"ROCR_VISIBLE_DEVICES=GPU-5f,GPU-6f", "HIP_VISIBLE_DEVICES=0,1", "GPU_DEVICE_ORDINAL=0,1"}),
			gone:    []string{"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"},
		},
		"AMD beside NVIDIA": {
			lease: leased(None, 0, amd("GPU-5f"), one),
			want:  slices.Concat(identity(0, "GPU-5f,GPU-a"), visible("GPU-a"), []string{"ROCR_VISIBLE_DEVICES=GPU-5f", "HIP_VISIBLE_DEVICES=0", "GPU_DEVICE_ORDINAL=0"}),
		},
		"AMD without a number of its own": {
			lease: leased(None, 0, gpu.Device{UUID: "GPU-1002-164e-at-0000-0e-00.0", Vendor: gpu.AMD, Ordinal: gpu.Some(3)}, amd("GPU-6f")),
			want:  slices.Concat(identity(0, "GPU-1002-164e-at-0000-0e-00.0,GPU-6f"), []string{"ROCR_VISIBLE_DEVICES=3,GPU-6f", "HIP_VISIBLE_DEVICES=0,1", "GPU_DEVICE_ORDINAL=0,1"}),
		},
		"AMD that ROCm does not know": {
			lease:   leased(None, 0, amd("GPU-1002-164e-at-0000-0e-00.0")),
			environ: []string{"ROCR_VISIBLE_DEVICES=7"},
			want:    identity(0, "GPU-1002-164e-at-0000-0e-00.0"),
			gone:    []string{"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"},
		},
		"Intel": {
			lease:   leased(None, 0, gpu.Device{UUID: "GPU-8086-56a0-at-0000-03-00.0", Vendor: gpu.Intel, Ordinal: gpu.Some(1)}),
			environ: []string{"ZE_AFFINITY_MASK=0", "CUDA_VISIBLE_DEVICES=1"},
			want: slices.Concat(identity(0, "GPU-8086-56a0-at-0000-03-00.0"), visible(""), []string{
				"ZE_AFFINITY_MASK=1", "ZE_ENABLE_PCI_ID_DEVICE_ORDER=1", "ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE", "ONEAPI_DEVICE_SELECTOR=level_zero:0",
			}),
		},
		"framework": {
			lease: leased(Framework, 4096, one), ladder: Ladder{Context: 500},
			want: slices.Concat(identity(4096, "GPU-a"), visible("GPU-a"), framework),
			gone: []string{"PYTORCH_HIP_ALLOC_CONF", "CUDA_MPS_PIPE_DIRECTORY"},
		},
		"framework on the larger of two": {
			lease:  leased(Framework, 4096, gpu.Device{UUID: "GPU-small", Vendor: gpu.NVIDIA, MemoryTotal: 8192}, two),
			ladder: Ladder{Context: 500},
			want:   slices.Concat(identity(4096, "GPU-small,GPU-b"), visible("GPU-small,GPU-b"), framework),
		},
		"framework on AMD": {
			lease: leased(Framework, 4096, amd("GPU-5f")), ladder: Ladder{Context: 500},
			want: slices.Concat(identity(4096, "GPU-5f"), framework,
				[]string{"ROCR_VISIBLE_DEVICES=GPU-5f", "HIP_VISIBLE_DEVICES=0", "GPU_DEVICE_ORDINAL=0", "PYTORCH_HIP_ALLOC_CONF=per_process_memory_fraction:" + share}),
		},
		"framework beside what the user set": {
			lease: leased(Framework, 4096, one), ladder: Ladder{Context: 500},
			environ: []string{
				"CUPY_GPU_MEMORY_LIMIT=1%", "XLA_CLIENT_MEM_FRACTION=.01", "XLA_PYTHON_CLIENT_MEM_FRACTION=.9",
				"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "TF_FORCE_GPU_ALLOW_GROWTH=false",
			},
			want: slices.Concat(identity(4096, "GPU-a"), visible("GPU-a"), []string{
				"CUPY_GPU_MEMORY_LIMIT=1%", "XLA_CLIENT_MEM_FRACTION=0.01",
				"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,per_process_memory_fraction:" + share,
				"PYTORCH_ALLOC_CONF=expandable_segments:True,per_process_memory_fraction:" + share,
				"TF_FORCE_GPU_ALLOW_GROWTH=false",
			}),
		},
		"framework with limits of the user that are no limits": {
			lease: leased(Framework, 4096, one), ladder: Ladder{Context: 500},
			environ: []string{"CUPY_GPU_MEMORY_LIMIT=0", "XLA_CLIENT_MEM_FRACTION=much", "PYTORCH_ALLOC_CONF=per_process_memory_fraction:0.5"},
			want:    slices.Concat(identity(4096, "GPU-a"), visible("GPU-a"), framework[:1], []string{"XLA_CLIENT_MEM_FRACTION=" + share}, framework[2:]),
			gone:    []string{"XLA_PYTHON_CLIENT_MEM_FRACTION"},
		},
		"framework with an old PyTorch": {
			lease: leased(Framework, 4096, one), ladder: Ladder{Context: 500, Torch: "2.9.1+cu128"},
			want: slices.Concat(identity(4096, "GPU-a"), visible("GPU-a"), framework[:2], framework[4:]),
			gone: []string{"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"},
		},
		"framework with a PyTorch that knows": {
			lease: leased(Framework, 4096, one), ladder: Ladder{Context: 500, Torch: "2.10.0"},
			want: slices.Concat(identity(4096, "GPU-a"), visible("GPU-a"), framework),
		},
		"framework on a device of unknown size": {
			lease: leased(Framework, 4096, gpu.Device{UUID: "GPU-a", MemoryTotal: -1}), ladder: Ladder{Context: 500},
			want: slices.Concat(identity(4096, "GPU-a"), visible("GPU-a"), framework[:1], framework[4:]),
			gone: []string{"XLA_CLIENT_MEM_FRACTION", "PYTORCH_ALLOC_CONF"},
		},
		"framework for the libraries that are named": {
			lease: leased(Framework, 4096, one), ladder: Ladder{Context: 500, Caps: []string{JAX, CuPy}},
			want: slices.Concat(identity(4096, "GPU-a"), visible("GPU-a"), framework[:2]),
			gone: []string{"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "TF_FORCE_GPU_ALLOW_GROWTH"},
		},
		"framework with more on one device than on the other": {
			lease: shared(leased(Framework, 9000, one, two, nvidia("GPU-c")), 9000, 4096, 0), ladder: Ladder{Context: 500},
			want: slices.Concat(identity(4096, "GPU-a,GPU-b,GPU-c"), visible("GPU-a,GPU-b,GPU-c"), framework),
		},
		"inside another lease": {
			lease: leased(Watchdog, 8192, one),
			environ: []string{
				"BERTH_LEASE=outer", "CUPY_GPU_MEMORY_LIMIT=1", "XLA_CLIENT_MEM_FRACTION=0.001", "CUDA_MPS_PIPE_DIRECTORY=/x",
				"PYTORCH_ALLOC_CONF=per_process_memory_fraction:0.001", "PYTORCH_CUDA_ALLOC_CONF=backend:native,per_process_memory_fraction:0.001",
			},
			want: slices.Concat(identity(8192, "GPU-a"), visible("GPU-a"), []string{"PYTORCH_CUDA_ALLOC_CONF=backend:native"}),
			gone: []string{"CUPY_GPU_MEMORY_LIMIT", "XLA_CLIENT_MEM_FRACTION", "CUDA_MPS_PIPE_DIRECTORY", "PYTORCH_ALLOC_CONF"},
		},
		"may be parked": {
			lease: parkable(leased(Watchdog, 4096, one)),
			want:  slices.Concat(identity(4096, "GPU-a"), visible("GPU-a"), []string{"BERTH_PARKABLE=1"}),
		},
		"may not be parked, under a lease that may": {
			lease: leased(Watchdog, 4096, one), environ: []string{"BERTH_LEASE=outer", "BERTH_PARKABLE=1"},
			want: slices.Concat(identity(4096, "GPU-a"), visible("GPU-a")),
		},
		"mps": {
			lease: leased(MPS, 4096, one), ladder: Ladder{Context: 500, MPS: "/state/mps/0/GPU-a/pipe", Compute: 30},
			want: slices.Concat(identity(4096, "GPU-a"), visible("GPU-a"), []string{
				"CUDA_MPS_PIPE_DIRECTORY=/state/mps/0/GPU-a/pipe", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=4096M",
				"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30", "XLA_PYTHON_CLIENT_PREALLOCATE=false", "TF_FORCE_GPU_ALLOW_GROWTH=true",
			}),
			gone: []string{"XLA_CLIENT_MEM_FRACTION", "PYTORCH_ALLOC_CONF"},
		},
		"mps for its share of the multiprocessors": {
			lease: leased(MPS, 0, one), ladder: Ladder{MPS: "/pipe", Compute: 5},
			want: slices.Concat(identity(0, "GPU-a"), visible("GPU-a"), []string{
				"CUDA_MPS_PIPE_DIRECTORY=/pipe", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=5", "XLA_PYTHON_CLIENT_PREALLOCATE=false", "TF_FORCE_GPU_ALLOW_GROWTH=true",
			}),
			gone: []string{"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(test.environ)
			test.want = append(test.want, fmt.Sprintf("BERTH_CONTEXT_MB=%d", test.ladder.Context))
			got, receipt := Environment(test.lease.Lease, test.lease.devices, test.ladder, test.environ)
			if diff := cmp.Diff(slices.Sorted(slices.Values(test.want)), slices.Sorted(slices.Values(got))); diff != "" {
				t.Error(diff)
			}
			for _, name := range test.gone {
				if slices.ContainsFunc(got, func(e string) bool { return strings.HasPrefix(e, name+"=") }) {
					t.Errorf("%s is still there", name)
				}
			}
			if !slices.Equal(before, test.environ) {
				t.Error("the environment that was handed in was changed")
			}
			if receipt.EnforcedBy != test.lease.EnforcedBy || len(receipt.Held)+len(receipt.Gaps) == 0 {
				t.Errorf("the receipt says %+v", receipt)
			}
		})
	}
}

// shared gives a lease other amounts of memory on its devices.
func shared(h held, memory ...gpu.MiB) held {
	for i := range h.Parts {
		h.Parts[i].Memory = memory[i]
	}
	return h
}

func TestReceiptInASentence(t *testing.T) {
	one := nvidia("GPU-a")
	unknown := leased(Framework, 4096, one)
	unknown.devices[0].MemoryTotal = 0
	for _, test := range []struct {
		lease  held
		ladder Ladder
		want   string
	}{
		{leased(Framework, 4096, one), Ladder{Context: 500, Caps: []string{CuPy, JAX}}, "CuPy and JAX take at most 3.5 GiB of the 4 GiB; what other libraries and programs take is measured, and not refused."},
		{leased(Framework, 4096, one), Ladder{Context: 500, Caps: []string{Torch}}, "PyTorch 2.10 or later takes at most 3.5 GiB of the 4 GiB; what other libraries and programs take is measured, and not refused."},
		{unknown, Ladder{Context: 500, Caps: []string{JAX}}, "Nothing refuses memory: what its processes take is measured, and held against 4 GiB."},
		{leased(Watchdog, 4096, one, nvidia("GPU-b")), Ladder{}, "Nothing refuses memory: what its processes take is measured, and held against 4 GiB on each device."},
		{leased(MPS, 4096, one), Ladder{MPS: "/pipe"}, "The driver refuses a CUDA process more than 4 GiB; the sum of several processes is measured, and not refused."},
		{leased(None, 4096, one), Ladder{}, "Nothing holds it to 4 GiB."},
		{leased(None, 0, one), Ladder{}, "It is a lease of slots, without memory to be held to."},
	} {
		if _, receipt := Environment(test.lease.Lease, test.lease.devices, test.ladder, nil); receipt.Sentence != test.want {
			t.Errorf("the receipt of %s says %q, want %q", test.lease.EnforcedBy, receipt.Sentence, test.want)
		}
	}
}

func parkable(h held) held {
	h.Parkable = true
	return h
}

func TestReceiptSaysWhatIsNotHeld(t *testing.T) {
	for name, test := range map[string]struct {
		lease  held
		ladder Ladder
		want   []string
	}{
		"framework":   {leased(Framework, 4096, nvidia("GPU-a")), Ladder{Context: 500}, []string{"TensorFlow has no variable", "watchdog"}},
		"old PyTorch": {leased(Framework, 4096, nvidia("GPU-a")), Ladder{Torch: "2.4.1"}, []string{"PyTorch 2.4.1: not limited"}},
		"small lease": {leased(Framework, 400, nvidia("GPU-a")), Ladder{Context: 500}, []string{"not larger than a CUDA context"}},
		"mps":         {leased(MPS, 4096, nvidia("GPU-a")), Ladder{MPS: "/p"}, []string{"a fault of one of them", "per process"}},
		"watchdog":    {leased(Watchdog, 4096, nvidia("GPU-a")), Ladder{}, []string{"nothing refuses memory"}},
		"two instances": {leased(None, 0, gpu.Device{UUID: "MIG-1", Vendor: gpu.NVIDIA, Parent: "GPU-a"}, gpu.Device{UUID: "MIG-2", Vendor: gpu.NVIDIA, Parent: "GPU-a"}),
			Ladder{}, []string{"one MIG instance"}},
		"AMD by place":   {leased(None, 0, amd("GPU-1002-164e-at-0000-0e-00.0")), Ladder{}, []string{"the program sees every AMD GPU"}},
		"Intel by place": {leased(None, 0, gpu.Device{UUID: "GPU-8086-at-0", Vendor: gpu.Intel}), Ladder{}, []string{"the program sees every Intel GPU"}},
		"none":           {leased(None, 4096, nvidia("GPU-a")), Ladder{}, []string{"nothing holds it to 4 GiB"}},
		"without memory": {leased(None, 0, nvidia("GPU-a")), Ladder{}, []string{"without memory"}},
	} {
		_, receipt := Environment(test.lease.Lease, test.lease.devices, test.ladder, nil)
		for _, want := range test.want {
			if !strings.Contains(strings.Join(receipt.Gaps, "\n"), want) {
				t.Errorf("%s: the gaps do not name %q: %q", name, want, receipt.Gaps)
			}
		}
	}
}

// A limit of PyTorch is claimed for the versions that know it.
func TestReceiptSaysWhichPyTorchIsHeld(t *testing.T) {
	for version, want := range map[string]string{"": "PyTorch, if it is 2.10 or later: at most", "2.11.0": "PyTorch 2.11.0: at most"} {
		l := leased(Framework, 4096, nvidia("GPU-a"))
		_, receipt := Environment(l.Lease, l.devices, Ladder{Torch: version}, nil)
		if !strings.Contains(strings.Join(receipt.Held, "\n"), want) {
			t.Errorf("with PyTorch %q it holds %q, want %q", version, receipt.Held, want)
		}
	}
}

// Whatever the lease and the device are, what the libraries may take stays
// within the lease, and is something.
func TestCapsStayWithinTheLease(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := gpu.MiB(rapid.Int64Range(256, 1<<20).Draw(t, "total"))
		memory := gpu.MiB(rapid.Int64Range(1, int64(total)).Draw(t, "memory"))
		context := gpu.MiB(rapid.Int64Range(0, 2000).Draw(t, "context"))
		pool := poolOf(memory, context)
		if pool < 1 || pool > memory {
			t.Fatalf("a pool of %d MiB in a lease of %d", pool, memory)
		}
		share := shareOf(pool, total)
		if used := share * float64(total); used > float64(pool)*(1+1e-12) { // the product is rounded
			t.Fatalf("a share of %v of %d MiB is %v, more than %d", share, total, used, pool)
		}
	})
}

// What a program under a lease submits is held by its own lease alone.
func TestOutsideTheLease(t *testing.T) {
	own := []string{"HOME=/home/ada", "CUPY_GPU_MEMORY_LIMIT=5", "CUDA_VISIBLE_DEVICES=3"}
	if got := Outside(own); !slices.Equal(got, own) {
		t.Errorf("outside of every lease it changes to %q", got)
	}
	user := []string{"HOME=/home/ada", "PYTORCH_ALLOC_CONF=expandable_segments:True"}
	big := leased(Framework, 100<<10, nvidia("GPU-b"))
	want, _ := Environment(big.Lease, big.devices, Ladder{Context: 500}, user)
	for _, by := range []string{MPS, Framework, Watchdog, None} {
		small := leased(by, 8<<10, amd("GPU-5f"), nvidia("GPU-a"))
		small.Parkable = true
		inside, _ := Environment(small.Lease, small.devices, Ladder{Context: 500, MPS: "/run/mps", Compute: 30, Isolation: ByCgroup}, user)
		got, _ := Environment(big.Lease, big.devices, Ladder{Context: 500}, Outside(inside))
		got = slices.DeleteFunc(got, func(v string) bool { return strings.HasPrefix(v, "XLA_PYTHON_CLIENT_PREALLOCATE=") }) // a default, and no limit
		if diff := cmp.Diff(asSet(want), asSet(got)); diff != "" {
			t.Errorf("submitted under a lease enforced by %s: %s", by, diff)
		}
	}
}

func asSet(list []string) map[string]bool {
	set := map[string]bool{}
	for _, v := range list {
		set[v] = true
	}
	return set
}

func TestTorchOptionsOfTheUserSurvive(t *testing.T) {
	for conf, want := range map[string]string{
		"":                           "per_process_memory_fraction:0.5",
		"expandable_segments:True,,": "expandable_segments:True,per_process_memory_fraction:0.5",
		"roundup_power2_divisions:[256:1,512:2,>:4],backend:native": "roundup_power2_divisions:[256:1,512:2,>:4],backend:native,per_process_memory_fraction:0.5",
		"per_process_memory_fraction:0.25,backend:native":           "backend:native,per_process_memory_fraction:0.25",
		" per_process_memory_fraction : 0.75 ":                      "per_process_memory_fraction:0.5",
		"per_process_memory_fraction:-1":                            "per_process_memory_fraction:0.5",
		"][,":                                                       "][,per_process_memory_fraction:0.5",
	} {
		if got := withShare(conf, 0.5); got != want {
			t.Errorf("%q becomes %q, want %q", conf, got, want)
		}
	}
}

// Changes leads from one environment to the other, for any two of them.
func TestChanges(t *testing.T) {
	entry := rapid.StringMatching(`[A-C]{1,2}=[xy=]{0,2}`)
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.SliceOfN(entry, 0, 6).Draw(t, "from")
		to := rapid.SliceOfN(entry, 0, 6).Draw(t, "to")
		e := newEditor(from)
		for _, change := range Changes(from, to) {
			if name, value, set := strings.Cut(change, "="); set {
				e.set(name, value)
			} else {
				e.unset(name)
			}
		}
		for _, name := range []string{"A", "B", "C", "AA", "AB", "BC"} {
			got, had := e.get(name)
			want, has := newEditor(to).get(name)
			if got != want || had != has {
				t.Fatalf("%s is %q (%v), want %q (%v)", name, got, had, want, has)
			}
		}
	})
}

// The receipt says what is between a program and others: who keeps it from their
// devices, and who clears the memory that they had.
func TestReceiptOfSeparation(t *testing.T) {
	l := leased(Watchdog, 4096, nvidia("GPU-a"))
	for _, test := range []struct {
		name       string
		ladder     Ladder
		isolatedBy string
		variable   bool
		held, gap  []string // texts that one sentence each has
	}{
		{"nothing is known", Ladder{}, "env", false, nil, []string{"--isolation cgroup"}},
		{"by its environment", Ladder{Isolation: "env", ClearedBy: "not checked"}, "env", false, nil, []string{"variables, which a program can change", "cleared_by: not checked;"}},
		{"by the kernel", Ladder{Isolation: "cgroup", ClearedBy: "driver, checked 2026-11-15"}, "cgroup", true,
			[]string{"the kernel does not let it open them", "cleared_by: driver, checked 2026-11-15"}, []string{"can move it out"}},
		{"something was left", Ladder{Isolation: "cgroup", ClearedBy: "nobody, checked 2026-11-15"}, "cgroup", true,
			[]string{"the kernel does not let it open them"}, []string{"can move it out", "cleared_by: nobody, checked 2026-11-15;"}},
	} {
		env, r := Environment(l.Lease, l.devices, test.ladder, []string{"A=1"})
		if r.IsolatedBy != test.isolatedBy || r.ClearedBy != test.ladder.ClearedBy {
			t.Errorf("%s: isolated by %q, cleared by %q", test.name, r.IsolatedBy, r.ClearedBy)
		}
		if InCgroup(Changes([]string{"A=1"}, env)) != test.variable {
			t.Errorf("%s: the environment is %q", test.name, env)
		}
		says := func(sentences []string, text string) bool {
			return slices.ContainsFunc(sentences, func(s string) bool { return strings.Contains(s, text) })
		}
		for _, text := range test.held {
			if !says(r.Held, text) || says(r.Gaps, text) {
				t.Errorf("%s: %q is not held by %q", test.name, text, r.Held)
			}
		}
		for _, text := range test.gap {
			if !says(r.Gaps, text) || says(r.Held, text) {
				t.Errorf("%s: %q is no gap of %q", test.name, text, r.Gaps)
			}
		}
	}
}
