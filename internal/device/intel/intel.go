// Package intel says where to read Intel GPUs.
//
// The i915 and xe drivers, which are part of Linux, show them in files in /sys and /proc:
// no library of the vendor is needed. These drivers tell less than others; what they do
// not tell is absent.
package intel

import (
	"path/filepath"
	"slices"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/drm"
)

// Table is for drm.Open. Of two sensors, the first is that of the card and the second
// that of the chip alone: a card has one or both.
var Table = drm.Table{
	Name: "intel", Vendor: gpu.Intel, Label: "Intel", Drivers: []string{"i915", "xe"},
	Missing: "load the driver with modprobe xe or modprobe i915; in a container, pass /dev/dri in",

	MemoryTotal: []string{"device/tile*/physical_vram_size_bytes", "device/lmem_total_bytes", "lmem_total_bytes"},
	Clock:       []string{"device/tile0/gt0/freq0/act_freq", "gt/gt0/rps_act_freq_mhz", "gt_act_freq_mhz"},

	Core: []string{"pkg", "2", "1"}, MemoryTemperature: []string{"vram", "3"},
	Energy: []string{"energy1_input", "energy2_input"},
	Limits: []drm.Limit{{Now: "power1_max", Default: "power1_rated_max"}, {Now: "power2_max", Default: "power2_rated_max"}},
	Quiet:  true,

	Faults: catalogue, Throttle: readThrottle,
}

// throttleFiles says where the drivers have the reasons: the file that says whether there
// are any, and what the names of the others begin with.
var throttleFiles = []struct{ status, reason string }{
	{"device/tile0/gt0/freq0/throttle/status", "device/tile0/gt0/freq0/throttle/reason_"},
	{"gt/gt0/throttle_reason_status", "gt/gt0/throttle_reason_"},
}

// throttleWords maps the names of the drivers' files to berth's words.
var throttleWords = []struct {
	file   string
	reason gpu.ThrottleReason
}{
	{"pl1", gpu.ThrottlePowerCap},
	{"pl2", gpu.ThrottlePowerCap},
	{"pl4", gpu.ThrottlePowerBrake},
	{"vr_tdc", gpu.ThrottlePowerBrake},
	{"thermal", gpu.ThrottleThermal},
	{"ratl", gpu.ThrottleThermal},
	{"prochot", gpu.ThrottleThermalHW},
	{"vr_thermalert", gpu.ThrottleThermalHW},
}

// readThrottle returns the reasons. It reads them one by one only if there are any.
func readThrottle(c *drm.Card) []gpu.ThrottleReason {
	for _, files := range throttleFiles {
		slowed, err := drm.Number(c.Dir, files.status)
		if err != nil {
			continue
		}
		reasons := []gpu.ThrottleReason{}
		if slowed == 0 {
			return reasons
		}
		for _, w := range throttleWords {
			n, err := drm.Number(filepath.Join(c.Dir, files.reason+w.file))
			if err == nil && n != 0 && !slices.Contains(reasons, w.reason) {
				reasons = append(reasons, w.reason)
			}
		}
		return reasons
	}
	return nil
}

// catalogue says what messages of the drivers mean. The first match counts.
var catalogue = drm.Catalogue{
	Entries: []drm.Entry{
		{Words: []string{"declared device", "wedged"}, Fault: dead},
		{Words: []string{"Failed to reset chip"}, Fault: dead},
		{Words: []string{"device lost from bus"}, Fault: dead},
		{Words: []string{"GPU HANG"}, Fault: drm.Hang},
		{Words: []string{"context reset due to GPU hang"}, Fault: drm.Hang},
		{Words: []string{"Timedout job"}, Fault: drm.Hang},
		{Words: []string{"reset failed"}, Fault: dead},
		{Words: []string{"Resetting chip for"}, Fault: drm.Reset},
		{Words: []string{"reset started"}, Fault: drm.Reset},
	},
	// A message names a process as "in python3 [4711]", or begins with "python3[4711] ".
	PID:   `\bin .* ?\[(\d+)\]`,
	Names: `(\bin ).{0,60}( ?\[\d+\])|.{0,60}\[\d+\]( context reset)`,
}

var dead = gpu.Fault{
	Name: "the driver has given the GPU up", Class: gpu.FaultDevice, Severity: gpu.Serious,
	Remedy: "stop the work on this GPU and reboot the machine."}
