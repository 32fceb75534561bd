package intel

import (
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/drm"
)

// catalogue says what messages of the drivers mean. The first match counts.
var catalogue = drm.Catalogue{
	Entries: []drm.Entry{
		{Words: []string{"declared device", "wedged"}, Fault: dead},
		{Words: []string{"Failed to reset chip"}, Fault: dead},
		{Words: []string{"device lost from bus"}, Fault: dead},
		{Words: []string{"GPU HANG"}, Fault: hang},
		{Words: []string{"Timedout job"}, Fault: hang},
		{Words: []string{"reset failed"}, Fault: dead},
		{Words: []string{"Resetting chip for"}, Fault: reset},
		{Words: []string{"reset started"}, Fault: reset},
	},
	// A message names a process as "in python3 [4711]".
	PID: `\bin .* ?\[(\d+)\]`,
}

var (
	dead = gpu.Fault{
		Name: "the driver has given the GPU up", Class: gpu.FaultDevice, Severity: gpu.Serious,
		Remedy: "stop the work on this GPU and reboot the machine."}
	reset = gpu.Fault{
		Name: "the driver resets the GPU, and the programs on it fail", Class: gpu.FaultDriver, Severity: gpu.Warning,
		Remedy: "restart the programs; if it happens again and again, ask the vendor."}
	hang = gpu.Fault{
		Name: "the GPU did not finish the work of a program in time", Class: gpu.FaultProgram, Severity: gpu.Warning,
		Remedy: "restart the program; if other programs fail in the same way, ask the vendor."}
)
