// Package amd says where to read AMD GPUs.
//
// The amdgpu driver, which is part of Linux, shows them in files in /sys and /proc: no
// library of the vendor is needed.
package amd

import (
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
