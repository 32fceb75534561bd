package promexport

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/health/monitor"
)

// The page has the names of dcgm-exporter only if somebody wants them, also after
// a change at run time, and never for what was not measured.
func TestDCGMNames(t *testing.T) {
	list := readings()
	full := list[0]
	full.Device = gpu.Device{
		UUID: "GPU-a", Index: 0, Name: "NVIDIA H200", Vendor: gpu.NVIDIA, PCI: "00000000:3B:00.0", Path: "/dev/nvidia2", Driver: "580.95.05",
	}
	poor := monitor.Reading{Device: gpu.Device{UUID: "GPU-c", Index: 1, Name: "Radeon", Vendor: gpu.AMD}, State: gpu.Normal, Sampled: true, Sample: gpu.Sample{Temperature: gpu.Some(gpu.Celsius(50))}}
	part := full
	part.Device.Parent, part.Device.UUID = "GPU-a", "MIG-a"
	names := "off"
	known := exporter(t).from
	known.Host = "node7"
	look := known.Look
	known.Look = func() Values {
		now := look()
		now.Compat, now.Readings = names, []monitor.Reading{full, list[1], poor, part}
		return now
	}
	e := New(known)
	theirs := func() string {
		var found strings.Builder
		for line := range strings.Lines(scrape(e)) {
			if strings.Contains(line, "DCGM_FI") {
				found.WriteString(line)
			}
		}
		return found.String()
	}
	if got := theirs(); got != "" {
		t.Errorf("nobody wants these:\n%s", got)
	}
	names = "dcgm"
	e.Event(gpu.Event{Code: gpu.EventDeviceFault, GPU: "GPU-a", Data: map[string]any{"xid": 79}})
	e.Event(gpu.Event{Code: gpu.EventDeviceFault, GPU: "GPU-a", Data: map[string]any{"kind": "ecc_corrected"}})
	const golden = "testdata/dcgm.txt"
	got := theirs()
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the page is not the golden one; if that is right, run the test with -update (-want +got):\n%s", diff)
	}
	names = "off"
	if got := theirs(); got != "" {
		t.Errorf("nobody wants these any more:\n%s", got)
	}
}
