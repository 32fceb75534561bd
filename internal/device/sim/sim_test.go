package sim_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/devicetest"
	"github.com/berth-gpu/berth/internal/device/sim"
)

var scan, fast = devicetest.Scan, devicetest.Fast

func TestConformance(t *testing.T) {
	busy := scenario(t, `
devices: [{model: rtx-4060, count: 2}, {model: h200}]
speed: 60
timeline:
  - {at: 0s, device: all, process: {pid: 5000001, memory_mb: 2GiB, grow_mb_per_second: 100, load: 90}}
  - {at: 0s, device: 2, load: 100, cooling: 0.1, repeat: 1s}
  - {at: 0s, device: all, xid: 13, ecc: {corrected: 2}, repeat: 1s}
`)
	for _, spec := range []string{"", "0", "dgx-h200", "2xrtx-4090+mi300x+l4", busy} {
		t.Run(filepath.Base(spec), func(t *testing.T) {
			devicetest.Run(t, func(t *testing.T) device.Backend { return open(t, spec) })
		})
	}
}

// open opens a simulation; without options, a plain one.
func open(t *testing.T, spec string, o ...sim.Options) *sim.Backend {
	t.Helper()
	b, err := sim.Open(spec, append(o, sim.Options{})[0])
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// scenario writes a scenario into a file and returns its path.
func scenario(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func slow(t *testing.T, dev device.Device) gpu.Slow {
	t.Helper()
	var s gpu.Slow
	if err := dev.Slow(t.Context(), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// hand is a clock that is moved by hand.
type hand struct{ now time.Time }

func newHand() *hand { return &hand{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

func (h *hand) Now() time.Time        { return h.now }
func (h *hand) pass(by time.Duration) { h.now = h.now.Add(by) }

func TestSpecs(t *testing.T) {
	for _, c := range []struct {
		spec string
		want string // UUIDs
	}{
		{"", "SIM-h200-0 SIM-h200-1 SIM-h200-2 SIM-h200-3"},
		{"2", "SIM-h200-0 SIM-h200-1"},
		{"0", ""},
		{"rtx-4060", "SIM-rtx-4060-0"},
		{" RTX-4060 ", "SIM-rtx-4060-0"},
		{"3xt4", "SIM-t4-0 SIM-t4-1 SIM-t4-2"},
		{"2xh100+a100+1", "SIM-h100-0 SIM-h100-1 SIM-a100-2 SIM-h200-3"},
		{"dgx-h200", "SIM-h200-0 SIM-h200-1 SIM-h200-2 SIM-h200-3 SIM-h200-4 SIM-h200-5 SIM-h200-6 SIM-h200-7"},
	} {
		var got []string
		for _, dev := range scan(t, open(t, c.spec)) {
			got = append(got, dev.Describe().UUID)
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("sim:%s has %q; want %q", c.spec, text, c.want)
		}
	}
}

func TestSpecErrors(t *testing.T) {
	const hint = " (give a number, a model, several of one like 4xrtx-4060, or the path of a scenario file ending in .yaml)"
	for _, c := range []struct{ spec, want string }{
		{"rtx-4061", `simulate "rtx-4061": no model is called "rtx-4061"; there are rtx-4060, rtx-4090, `},
		{"dgx-h20", `simulate "dgx-h20": no model is called "dgx-h20"; there are dgx-h200, `},
		{"4x", `simulate "4x": no model is called "4x"; there are `},
		{"h200+", `simulate "h200+": no model is called ""; there are `},
		{"-3", `simulate "-3": -3 devices: between 0 and 256 are possible` + hint},
		{"257", `simulate "257": 257 devices: between 0 and 256 are possible` + hint},
		{"99999999999999999999", `simulate "99999999999999999999": 99999999999999999999 devices: between 0 and 256 are possible` + hint},
		{"trace=day.csv", `simulate "trace=day.csv": berth plays no recordings any more: name a model, and say what happens in the timeline of a scenario, as berth help simulator has it` + hint},
		{"2xl4+trace=/srv/day.csv", `simulate "2xl4+trace=/srv/day.csv": berth plays no recordings any more: `},
		{"40xdgx-h200", `simulate "40xdgx-h200": more than 256 devices` + hint},
		{"./none.yaml", `read the scenario: open ./none.yaml: no such file or directory (name a file in the language of berth help simulator)`},
	} {
		_, err := sim.Open(c.spec, sim.Options{})
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("sim:%s: %v\nwant %s…", c.spec, err, c.want)
			continue
		}
		if device.Hint(err) == "" {
			t.Errorf("sim:%s: %v has no hint", c.spec, err)
		}
	}
}

func TestFirstIndex(t *testing.T) {
	file := scenario(t, "devices: 2xl4\ntimeline: [{device: 1, load: 50}, {device: SIM-l4-6, cooling: 0.5}]")
	devices := scan(t, open(t, file, sim.Options{FirstIndex: 5}))
	if d := devices[1].Describe(); d.UUID != "SIM-l4-6" || d.Index != 6 {
		t.Errorf("the second device from index 5 on is %s with index %d; want SIM-l4-6 with 6", d.UUID, d.Index)
	}
	if load := fast(t, devices[1]).Utilization; load != gpu.Some(gpu.Percent(50)) {
		t.Errorf("its load is %v; want what the scenario says for the device at position 1", load)
	}
}

func TestIdentity(t *testing.T) {
	devices := scan(t, open(t, "5xh200+2xl4"))
	first, last := devices[0].Describe(), devices[6].Describe()
	if first.Name != "NVIDIA H200 (simulated)" || first.Vendor != gpu.Simulated || first.ComputeCapability != "9.0" {
		t.Errorf("the first device describes itself as %+v", first)
	}
	if first.PCI != "00000000:1B:00.0" || last.PCI != "00000000:4B:00.0" {
		t.Errorf("PCI addresses are %s and %s", first.PCI, last.PCI)
	}
	var kinds []gpu.LinkKind
	for _, link := range first.Links {
		kinds = append(kinds, link.Kind)
	}
	// NVLink to its four like, on whichever node, and the L4s are on the other.
	want := []gpu.LinkKind{gpu.LinkNVLink, gpu.LinkNVLink, gpu.LinkNVLink, gpu.LinkNVLink, gpu.LinkSystem, gpu.LinkSystem}
	if !slices.Equal(kinds, want) || first.Links[0].Lanes != 18 {
		t.Errorf("links of the first device are %v", first.Links)
	}
	if best := last.Links[0]; best.Kind != gpu.LinkBridge || best.To != "SIM-l4-5" {
		t.Errorf("the last device's best link is %v; want a host bridge to its like", best)
	}

	first.Links[0].To = "somebody"
	if again := devices[0].Describe(); again.Links[0].To == "somebody" {
		t.Error("changing what Describe returned changed the device")
	}
}

func TestManyDevicesHaveDifferentAddresses(t *testing.T) {
	seen := map[string]bool{}
	for _, dev := range scan(t, open(t, "256")) {
		seen[dev.Describe().PCI] = true
	}
	if len(seen) != 256 {
		t.Errorf("256 devices have %d PCI addresses", len(seen))
	}
}

func TestClosedBackendEndsEverything(t *testing.T) {
	b := open(t, scenario(t, "devices: 1\ntimeline: [{device: 0, hang: true}]"))
	dev := scan(t, b)[0]
	hung := make(chan error)
	go func() { hung <- dev.Fast(t.Context(), new(gpu.Sample)) }()
	watched := make(chan error)
	go func() { watched <- b.Watch(t.Context(), func(device.Fault) {}) }()
	if err := errors.Join(b.Close(), b.Close()); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := <-hung; err == nil {
		t.Error("a device that hung until Close gave a reading")
	}
	if err := <-watched; err != nil {
		t.Errorf("Watch: %v", err)
	}
}
