package slice

import (
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-gpu/berth/gpu"
)

func TestSemver(t *testing.T) {
	for text, want := range map[string]string{
		"575.57.08": "575.57.8", "9.0": "9.0.0", "12": "12.0.0", "0.0.0": "0.0.0", "000.010.00": "0.10.0", "6.12.12.1": "6.12.12", "6.8.0-45-generic": "6.8.0",
		"": "", "gfx942": "", "v1.2.3": "", "1.": "1.0.0", "-1": "", strings.Repeat("9", 100): "",
	} {
		if got := semver(text); got != want {
			t.Errorf("semver(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestAddress(t *testing.T) {
	for text, want := range map[string]string{
		"00000000:1B:00.0": "0000:1b:00.0", "0000:1b:00.0": "0000:1b:00.0", "00010000:C1:1F.7": "10000:c1:1f.7", "0001:00:00.0": "0001:00:00.0", "1:00:00.0": "0001:00:00.0",
		"": "", "1b:00.0": "", "0000:1b:00.8": "", "0000:1b:00.0/..": "",
	} {
		if got := Address(text); got != want {
			t.Errorf("Address(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestAttributes(t *testing.T) {
	instance := gpu.Device{
		UUID: "MIG-1", Parent: "GPU-1", Name: "NVIDIA H200 MIG 1g.18gb+me", Vendor: gpu.NVIDIA, Backend: "nvml", Driver: "575.57.08",
		ComputeCapability: "9.0", PCI: "00000000:1B:00.0", NUMANode: gpu.Some(1),
	}
	got := map[string]string{}
	for name, a := range attributes(instance, map[string]string{"0000:1b:00.0": "pci0000:16"}) {
		switch {
		case a.StringValue != nil:
			got[string(name)] = *a.StringValue
		case a.VersionValue != nil:
			got[string(name)] = "version " + *a.VersionValue
		case a.IntValue != nil && *a.IntValue == 1:
			got[string(name)] = "one"
		}
	}
	want := map[string]string{
		"uuid": "MIG-1", "type": "mig", "productName": "NVIDIA H200 MIG 1g.18gb+me", "vendor": "nvidia", "driverVersion": "version 575.57.8",
		"computeCapability": "version 9.0.0", "resource.kubernetes.io/pciBusID": "0000:1b:00.0", "resource.kubernetes.io/pcieRoot": "pci0000:16",
		"numaNode": "one", "parent": "GPU-1", "profile": "1g.18gb+me",
	}
	if len(got) != len(want) {
		t.Errorf("attributes %v", got)
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %q, want %q", name, got[name], value)
		}
	}
	for _, c := range []struct {
		device gpu.Device
		kind   string
	}{
		{gpu.Device{UUID: "SIM-h200-0", Vendor: gpu.Simulated}, "simulated"},
		{gpu.Device{UUID: "SIM-h200-0", Vendor: gpu.NVIDIA, Backend: "sim"}, "simulated"},
		{gpu.Device{UUID: "GPU-1", Vendor: gpu.AMD}, "gpu"},
	} {
		a := attributes(c.device, nil)
		if kind := a["type"].StringValue; kind == nil || *kind != c.kind {
			t.Errorf("%+v has the attributes %v", c.device, a)
		}
		if _, has := a["profile"]; has {
			t.Errorf("%s has a profile", c.device.UUID)
		}
	}
}

// A name that was cut in the middle of a character is no text for the API server, and
// a UUID that was cut is that of another device.
func TestLongTexts(t *testing.T) {
	d := gpu.Device{UUID: strings.Repeat("u", 65), Name: strings.Repeat("ü", 40), Parent: strings.Repeat("p", 65), Vendor: "sim"}
	list := []resourcev1.Device{{Name: "x", Attributes: attributes(d, nil)}}
	if problems := broken(list, Shape{}); len(problems) > 0 {
		t.Error(problems)
	}
	if _, has := list[0].Attributes["uuid"]; has {
		t.Error("a UUID that is too long is published in part")
	}
	if name := list[0].Attributes["productName"].StringValue; name == nil || len(*name) < 50 {
		t.Errorf("the name is gone: %v", name)
	}
}
