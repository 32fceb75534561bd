package amd

import (
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/drm"
)

// catalogue says what messages of the driver mean. The first match counts. A reset that
// succeeds leaves a usable GPU; the programs on it have lost their work.
var catalogue = drm.Catalogue{
	Entries: []drm.Entry{
		// These messages name a program, and users choose that name: match them first.
		{Words: []string{"Process information:", "pid "}, Fault: hang},
		{Words: []string{"for process ", "pid "}, Fault: gpu.Fault{
			Name: "access to memory that is not mapped", Class: gpu.FaultProgram, Severity: gpu.Warning,
			Remedy: "look for the mistake in the program."}},
		{Words: []string{"device lost from bus"}, Fault: gpu.Fault{
			Name: "the GPU fell off the bus", Class: gpu.FaultDevice, Severity: gpu.Serious,
			Remedy: "reboot the machine; if it comes back, check the seating, the power supply and the cooling of the GPU."}},
		{Words: []string{"uncorrectable hardware error"}, Fault: uncorrected},
		{Words: []string{"GPU reset end with ret = -"}, Fault: resetFailed},
		{Words: []string{"GPU reset", "failed"}, Fault: resetFailed},
		{Words: []string{"GPU Recovery Failed"}, Fault: resetFailed},
		{Words: []string{"GPU reset begin"}, Fault: gpu.Fault{
			Name: "the driver resets the GPU, and the programs on it fail", Class: gpu.FaultDriver, Severity: gpu.Warning,
			Remedy: "restart the programs; if it happens again and again, ask the vendor."}},
		{Words: []string{"GPU reset", "succeeded"}, Fault: gpu.Fault{
			Name: "the driver has reset the GPU, and it works again", Class: gpu.FaultDriver, Severity: gpu.Note}},
		{Words: []string{"ring ", " timeout"}, Fault: hang},
	},
	Not: " 0 uncorrectable",
	// A name has at most 15 bytes and may look like the rest of the message, so the
	// pattern takes as much as it can.
	PID: `\bprocess .{0,15} pid:? (\d+)`,
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
	hang = gpu.Fault{
		Name: "the GPU did not finish the work of a program in time", Class: gpu.FaultProgram, Severity: gpu.Warning,
		Remedy: "restart the program; if other programs fail in the same way, ask the vendor."}
)
