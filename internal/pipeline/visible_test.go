package pipeline

import "testing"

func TestSamePhysicalGPU(t *testing.T) {
	d := Device{UUID: "GPU-5F12ab", PCI: "00000000:1B:00.0"}
	for _, c := range []struct {
		seen Visible
		want bool
	}{
		{Visible{UUID: "GPU-5f12ab"}, true},
		{Visible{UUID: "5f12ab"}, true},
		{Visible{UUID: "5f12ac", PCI: "0000:1b:00.0"}, false}, // the UUID counts
		{Visible{PCI: "0000:1b:00.0"}, true},
		{Visible{PCI: "1B:00.0"}, true},
		{Visible{PCI: "0001:1B:00.0"}, false},
		{Visible{PCI: "0000:1C:00.0"}, false},
		{Visible{PCI: "bus 1B"}, false},
		{Visible{PCI: "a:b:c:d:e"}, false},
		{Visible{Name: "NVIDIA H200"}, false}, // a name says nothing
		{Visible{}, false},
	} {
		if got := c.seen.same(&d); got != c.want {
			t.Errorf("%+v is %+v: %v", c.seen, d, got)
		}
	}
}
