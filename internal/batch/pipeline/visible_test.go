package pipeline

import (
	"testing"

	"github.com/berth-gpu/berth/api"
)

func TestSamePhysicalGPU(t *testing.T) {
	d := Device{UUID: "GPU-5F12ab", PCI: "00000000:1B:00.0"}
	for _, c := range []struct {
		seen api.VisibleGPU
		want bool
	}{
		{api.VisibleGPU{UUID: "GPU-5f12ab"}, true},
		{api.VisibleGPU{UUID: "5f12ab"}, true},
		{api.VisibleGPU{UUID: "5f12ac", PCI: "0000:1b:00.0"}, false}, // the UUID counts
		{api.VisibleGPU{PCI: "0000:1b:00.0"}, true},
		{api.VisibleGPU{PCI: "1B:00.0"}, true},
		{api.VisibleGPU{PCI: "0001:1B:00.0"}, false},
		{api.VisibleGPU{PCI: "0000:1C:00.0"}, false},
		{api.VisibleGPU{PCI: "bus 1B"}, false},
		{api.VisibleGPU{PCI: "a:b:c:d:e"}, false},
		{api.VisibleGPU{Name: "NVIDIA H200"}, false}, // a name says nothing
		{api.VisibleGPU{}, false},
	} {
		if got := same(c.seen, &d); got != c.want {
			t.Errorf("%+v is %+v: %v", c.seen, d, got)
		}
	}
}
