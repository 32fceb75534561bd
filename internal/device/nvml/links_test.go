package nvml_test

import (
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/gpu"
)

// wired gives a GPU NVLinks to the GPUs with these indices, one each; -1 is a
// switch and -2 a link that is down.
func wired(ends ...int) func(*mock.Device) {
	return func(h *mock.Device) {
		h.GetNvLinkStateFunc = func(link int) (nvml.EnableState, nvml.Return) {
			switch {
			case link >= len(ends):
				return 0, nvml.ERROR_INVALID_ARGUMENT
			case ends[link] == -2:
				return nvml.FEATURE_DISABLED, nvml.SUCCESS
			}
			return nvml.FEATURE_ENABLED, nvml.SUCCESS
		}
		h.GetNvLinkRemoteDeviceTypeFunc = func(link int) (nvml.IntNvLinkDeviceType, nvml.Return) {
			if ends[link] == -1 {
				return nvml.NVLINK_DEVICE_TYPE_SWITCH, nvml.SUCCESS
			}
			return nvml.NVLINK_DEVICE_TYPE_GPU, nvml.SUCCESS
		}
		h.GetNvLinkRemotePciInfoFunc = func(link int) (nvml.PciInfo, nvml.Return) { return pciOf(ends[link]), nvml.SUCCESS }
	}
}

func TestLinks(t *testing.T) {
	direct := newRig(t, 3)
	direct.gpus[0].tune = wired(1, 1, -2, 2)
	direct.gpus[1].tune = wired(0, -2, 0)
	direct.gpus[2].tune = wired(0)

	switched := newRig(t, 3)
	switched.gpus[0].tune = wired(-1, -1, -1)
	switched.gpus[1].tune = wired(-1, -1)

	levels := newRig(t, 7)
	levels.gpus[0].tune = func(h *mock.Device) {
		h.GetTopologyCommonAncestorFunc = func(other nvml.Device) (nvml.GpuTopologyLevel, nvml.Return) {
			at, _ := other.GetMinorNumber()
			return map[int]nvml.GpuTopologyLevel{
				1: nvml.TOPOLOGY_SYSTEM, 2: nvml.TOPOLOGY_NODE, 3: nvml.TOPOLOGY_HOSTBRIDGE,
				4: nvml.TOPOLOGY_MULTIPLE, 5: nvml.TOPOLOGY_SINGLE, 6: 99,
			}[at], nvml.SUCCESS
		}
	}

	cases := []struct {
		name string
		rig  *rig
		of   int
		want []gpu.Link
	}{
		{"direct", direct, 0, []gpu.Link{{To: "GPU-1", Kind: gpu.LinkNVLink, Lanes: 2}, {To: "GPU-2", Kind: gpu.LinkNVLink, Lanes: 1}}},
		{"direct, back", direct, 1, []gpu.Link{{To: "GPU-0", Kind: gpu.LinkNVLink, Lanes: 2}, {To: "GPU-2", Kind: gpu.LinkNode}}},
		{"through a switch", switched, 0, []gpu.Link{{To: "GPU-1", Kind: gpu.LinkNVLink, Lanes: 2}, {To: "GPU-2", Kind: gpu.LinkNode}}},
		{"not on the switch", switched, 2, []gpu.Link{{To: "GPU-0", Kind: gpu.LinkNode}, {To: "GPU-1", Kind: gpu.LinkNode}}},
		{"over PCIe", levels, 0, []gpu.Link{
			{To: "GPU-4", Kind: gpu.LinkSwitch}, {To: "GPU-5", Kind: gpu.LinkSwitch}, {To: "GPU-3", Kind: gpu.LinkBridge},
			{To: "GPU-2", Kind: gpu.LinkNode}, {To: "GPU-1", Kind: gpu.LinkSystem},
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := devices(t, c.rig.backend())[c.of].Describe().Links
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("links (-want +got):\n%s", diff)
			}
		})
	}
}
