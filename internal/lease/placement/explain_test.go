package placement

import (
	"strings"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

func TestReasons(t *testing.T) {
	small := with(available(10 << 10))
	small.Ceiling = 20 << 10
	s := machine(
		with(available(12<<10)),
		with(active(4)),
		with(active(4), available(-100)),
		small,
		with(state(gpu.Critical)),
		with(closed("in quarantine after XID 79")),
		with(usable(2), active(2), state(gpu.Throttled)),
	)
	e := Explain(s, &lease.Request{Memory: 40 << 10, Slots: 1}, nil)
	want := []struct {
		index int
		code  Code
		text  string
	}{
		{0, NoMemory, "needs 40 GiB and has 12 GiB"},
		{1, NoSlot, "needs 1 slot, and all 4 are taken"},
		{2, NoSlot, "needs 1 slot, and all 4 are taken"},
		{2, NoMemory, "needs 40 GiB and has -100 MiB"},
		{3, TooSmall, "needs 40 GiB and could never have more than 20 GiB"},
		{4, BadState, "the device is CRITICAL"},
		{5, Closed, "nothing is granted here: in quarantine after XID 79"},
		{6, NoSlot, "needs 1 slot, and all 2 are taken (of 4, while it is THROTTLED or not fully trusted)"},
	}
	if len(e.Reasons) != len(want) {
		t.Fatalf("%d reasons, want %d: %+v", len(e.Reasons), len(want), e.Reasons)
	}
	for i, w := range want {
		if got := e.Reasons[i]; got.Index != w.index || got.Code != w.code || got.Text != w.text || got.GPU != uuid(w.index) {
			t.Errorf("reason %d is %+v, want %+v", i, got, w)
		}
	}
	if !e.Ever || e.LargestNow != 12<<10 || e.LargestEver != 80<<10 {
		t.Errorf("ever %v, largest now %s, ever %s", e.Ever, e.LargestNow, e.LargestEver)
	}
	const text = "place 40 GiB and 1 slot: no device fits (wait, or ask for at most 12 GiB, which would be granted now)"
	if e.Error() != text {
		t.Errorf("error is %q", e)
	}
}

func TestHints(t *testing.T) {
	two := machine(idle(), with(active(4)))
	held := gateFunc(func(string, gpu.MiB) string { return "job-3 is ahead and would be delayed" })
	cases := []struct {
		name string
		s    *Snapshot
		r    lease.Request
		want string
		gate Gate
	}{
		{"no GPU", machine(), lease.Request{Slots: 1}, "there is no GPU on this machine", nil},
		{"more than exist", two, lease.Request{GPUs: 3, Slots: 1}, "this machine has 2 devices; ask for no more", nil},
		{"some fit", two, lease.Request{GPUs: 2, Slots: 1}, "only 1 of 2 devices fit", nil},
		{"an unknown pin", two, lease.Request{Slots: 1, Where: gpu.Where{GPU: "GPU-x"}}, "there is no device GPU-x", nil},
		{"two of one", two, lease.Request{GPUs: 2, Where: gpu.Where{GPU: uuid0}}, "one given device cannot be for 2", nil},
		{"constraints", two, lease.Request{Slots: 1, Where: gpu.Where{Vendor: gpu.AMD}}, "no device of this machine could ever serve it", nil},
		{"slots", two, lease.Request{Slots: 9}, "no device of this machine could ever serve it", nil},
		{"memory", two, lease.Request{Memory: 1 << 20}, "ask for at most 80 GiB: more never fits", nil},
		{"the only device", machine(with(state(gpu.Critical))), lease.Request{Slots: 1}, "(GPU 0: the device is CRITICAL)", nil},
		{"one of two devices", machine(with(state(gpu.Critical)), with(state(gpu.Critical))), lease.Request{Slots: 1}, "until the devices are well again", nil},
		{"held back", machine(idle()), lease.Request{Slots: 1}, "wait until somebody releases", held},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e := Explain(c.s, &c.r, c.gate)
			if e == nil {
				t.Fatal("it fits")
			}
			if !strings.Contains(e.Error(), c.want) {
				t.Errorf("got %q, want it to contain %q", e, c.want)
			}
		})
	}
	if e := Explain(machine(idle()), &lease.Request{Slots: 1}, held); e.Reasons[0].Code != HeldBack || e.Reasons[0].Text != held.Refuse("", lease.Load{}) {
		t.Errorf("reasons %+v", e.Reasons)
	}
}

func TestUnmetConstraints(t *testing.T) {
	radeon := testDevice(1)
	radeon.Vendor, radeon.Name, radeon.ComputeCapability = gpu.AMD, "Radeon", ""
	plain := testDevice(0)
	plain.Confidential = gpu.NotConfidential
	s := NewSnapshot([]gpu.Device{plain, radeon})
	for where, want := range map[string]string{
		"vendor=intel":    "it is made by nvidia, not by intel",
		"name~MI300":      "its name is NVIDIA H200, which is not like MI300",
		"name=H200":       "its name is NVIDIA H200, not H200",
		"cc>=10.0":        "its compute capability is 9.0, below 10.0",
		"memory>=100GiB":  "it has 81 GiB of memory, less than 100 GiB",
		"confidential=on": "its confidential mode is off, not on",
		"gpu=" + uuid(99): "the request is for GPU-00099",
	} {
		w, err := gpu.ParseWhere(where)
		if err != nil {
			t.Fatal(err)
		}
		if got := Explain(s, &lease.Request{Slots: 1, Where: w}, nil).Reasons[0].Text; got != want {
			t.Errorf("%s: %q, want %q", where, got, want)
		}
	}
	got := Explain(s, &lease.Request{Slots: 1, Where: gpu.Where{CC: gpu.Capability{Major: 9}}}, nil).Reasons[1].Text
	if want := "it has no compute capability, and 9.0 or more is asked for"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
