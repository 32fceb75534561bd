// Package amd says where to read AMD GPUs.
//
// The amdgpu driver, which is part of Linux, shows them in files in /sys and /proc: no
// library of the vendor is needed.
package amd

import (
	"encoding/binary"
	"path/filepath"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/drm"
)

// Table is for drm.Open.
var Table = drm.Table{
	Name: "amd", Vendor: gpu.AMD, Label: "AMD", Drivers: []string{"amdgpu"},
	Missing: "load the driver with modprobe amdgpu; in a container, pass /dev/kfd and /dev/dri in",

	Serial: "device/unique_id", Product: "device/product_name",

	MemoryTotal: []string{"device/mem_info_vram_total"}, LeastMemory: 1024,
	MemoryUsed: "device/mem_info_vram_used", Busy: "device/gpu_busy_percent", MemoryBusy: "device/mem_busy_percent",

	// The edge is what other vendors call the temperature of a GPU; server boards have
	// only the hottest spot.
	Core: []string{"edge", "junction", "1"}, MemoryTemperature: []string{"mem"},
	Power: []string{"power1_average", "power1_input"}, Energy: []string{"energy1_input"},
	ClockCore: "freq1_input", ClockMemory: "freq2_input",
	Limits: []drm.Limit{{Now: "power1_cap", Default: "power1_cap_default", Least: "power1_cap_min", Most: "power1_cap_max"}},
	Fan:    true,

	Computing: "sys/class/kfd/kfd",

	Errors: "device/ras/*_err_count", Uncorrected: uncorrected, Faults: catalogue,
	Throttle: readThrottle,
}

// catalogue says what messages of the driver mean. The first match counts. A reset that
// succeeds leaves a usable GPU; the programs on it have lost their work.
var catalogue = drm.Catalogue{
	Entries: []drm.Entry{
		// These messages name a program, some on a line of their own after that of the fault.
		{Words: []string{"Process ", " pid"}, Fault: drm.Hang},
		{Words: []string{"process ", " pid"}, Fault: gpu.Fault{
			Name: "access to memory that is not mapped", Class: gpu.FaultProgram, Severity: gpu.Warning,
			Remedy: "look for the mistake in the program."}},
		{Words: []string{"device lost from bus"}, Fault: gpu.Fault{
			Name: "the GPU fell off the bus", Class: gpu.FaultDevice, Severity: gpu.Serious,
			Remedy: "reboot the machine; if it comes back, check the seating, the power supply and the cooling of the GPU."}},
		{Words: []string{"uncorrectable hardware error"}, Fault: uncorrected},
		{Words: []string{"GPU reset end with ret = -"}, Fault: resetFailed},
		{Words: []string{"GPU reset", "failed"}, Fault: resetFailed},
		{Words: []string{"GPU Recovery Failed"}, Fault: resetFailed},
		{Words: []string{"GPU reset begin"}, Fault: drm.Reset},
		{Words: []string{"GPU reset", "succeeded"}, Fault: gpu.Fault{
			Name: "the driver has reset the GPU, and it works again", Class: gpu.FaultDriver, Severity: gpu.Note}},
		{Words: []string{"ring ", " timeout"}, Fault: drm.Hang},
	},
	Not: " 0 uncorrectable",
	// A name has at most 15 bytes and may look like the rest of the message, so the
	// pattern takes as much as it can.
	PID:   `\b[Pp]rocess .{0,15} pid:? (\d+)`,
	Names: `(\b[Pp]rocess ).{0,200}( pid:? \d+)`, // the kernel writes a strange byte as \x0a
	// A message begins with the driver and the address, or with "[drm:amdgpu_…".
	Anywhere: true,
}

var (
	uncorrected = gpu.Fault{
		Name: "a hardware error could not be corrected", Class: gpu.FaultDevice, Severity: gpu.Serious,
		Remedy: "stop the work on this GPU and reset it, or reboot; if it comes back, have the GPU replaced."}
	resetFailed = gpu.Fault{
		Name: "the driver could not reset the GPU", Class: gpu.FaultDevice, Severity: gpu.Serious,
		Remedy: "stop the work on this GPU and reboot the machine."}
)

// The table gpu_metrics begins with its size, its format and its revision. Only revision
// 1.3 has bits that mean the same for every GPU; throttleReasons ignores the others.
const (
	metricsFormat, metricsRevision = 1, 3
	throttleAt                     = 112 // where the bits are
)

// throttleWords maps the driver's bits to berth's words.
var throttleWords = []struct {
	first, last int // bits
	reason      gpu.ThrottleReason
}{
	{0, 7, gpu.ThrottlePowerCap},     // package power
	{16, 23, gpu.ThrottlePowerBrake}, // currents
	{32, 45, gpu.ThrottleThermal},
	{46, 47, gpu.ThrottleThermalHW}, // PROCHOT
	{56, 57, gpu.ThrottleHardware},
}

func readThrottle(c *drm.Card) []gpu.ThrottleReason {
	var space [1024]byte
	table, err := drm.Read(filepath.Join(c.Device, "gpu_metrics"), space[:])
	if err != nil {
		return nil
	}
	return throttleReasons(table)
}

// throttleReasons reads a table. It returns nil if the table does not say, and an empty
// list if nothing slows the GPU down.
func throttleReasons(table []byte) []gpu.ThrottleReason {
	if len(table) < throttleAt+8 || table[2] != metricsFormat || table[3] != metricsRevision ||
		int(binary.NativeEndian.Uint16(table)) > len(table) {
		return nil
	}
	bits := binary.NativeEndian.Uint64(table[throttleAt:])
	if bits == ^uint64(0) {
		return nil // the driver fills in ones for what it does not know
	}
	reasons := []gpu.ThrottleReason{}
	for _, w := range throttleWords {
		mask := (uint64(1)<<(w.last-w.first+1) - 1) << w.first
		if bits&mask != 0 {
			reasons = append(reasons, w.reason)
		}
	}
	return reasons
}
