// Package xid describes the numbered errors of NVIDIA's driver in words that
// all vendors share.
//
// It is only a catalogue: package nvml reads the numbers from the driver, and package sim
// from a script.
//
// Pure: no clock, no I/O.
package xid

import (
	"fmt"
	"slices"

	"github.com/berth-gpu/berth/gpu"
)

// Describe returns the fault that a code stands for in NVIDIA's catalogue. A code that is
// not in the catalogue is a note: every driver adds numbers, most of them harmless, and a
// device that is really broken also stops answering or reports one of the codes below. So
// an unknown number alone takes no GPU out of service.
func Describe(code int) gpu.Fault {
	f := gpu.Fault{Code: fmt.Sprintf("XID %d", code)}
	for _, entry := range catalogue {
		if slices.Contains(entry.codes, code) {
			f.Name, f.Class, f.Severity, f.Remedy = entry.name, entry.class, entry.severity, entry.remedy
			return f
		}
	}
	f.Name, f.Class, f.Severity = "an error that berth does not know", gpu.FaultDriver, gpu.Note
	f.Remedy = "look the number up in NVIDIA's XID catalogue."
	return f
}

// Detail returns the data about a code that an event adds for programs.
func Detail(code int) map[string]any { return map[string]any{"kind": "xid", "xid": code} }

// Remedies that many codes share.
const (
	restartProgram = "restart the program; if other programs fail in the same way, run the vendor's diagnostics."
	debugProgram   = "look for the mistake in the program, for example with compute-sanitizer."
	resetDevice    = "stop the work on this GPU and reset it with nvidia-smi --gpu-reset, or reboot."
	watchDevice    = "nothing needs to be done now; if it is reported again and again, ask the vendor."
	checkLinks     = "stop the work on this GPU and reset it; if it comes back, check the NVLink bridges, cables and switches."
	updateDriver   = "update the driver and the firmware; if it stays, ask the vendor."
)

// catalogue follows the actions that NVIDIA's public catalogue recommends: where it is
// enough to start the program again, the fault is the program's; where the GPU has to be
// reset or replaced, it is serious. Two readings are our own. A context switch timeout
// (109) is charged to the program, as NVIDIA's Kubernetes plugin does. Corrected memory
// errors, a high rate of them (92) and rows that were remapped in time (63) leave the
// data right and are notes.
var catalogue = []struct {
	codes    []int
	name     string
	class    gpu.FaultClass
	severity gpu.Severity
	remedy   string
}{
	// The program did something wrong, or its channel was torn down.
	{[]int{8, 43}, "the GPU stopped working on a program", gpu.FaultProgram, gpu.Warning, restartProgram},
	{[]int{11, 32}, "corrupted command stream", gpu.FaultProgram, gpu.Warning, debugProgram},
	{[]int{13}, "graphics or compute engine exception", gpu.FaultProgram, gpu.Warning, debugProgram},
	{[]int{25, 69}, "illegal command for the graphics or compute engine", gpu.FaultProgram, gpu.Warning, debugProgram},
	{[]int{31}, "access to memory that is not mapped", gpu.FaultProgram, gpu.Warning, debugProgram},
	{[]int{39, 40, 41, 70, 71, 72, 75, 76, 77, 85, 126, 127, 128, 129, 130, 131, 132, 133, 134, 135},
		"copy engine exception", gpu.FaultProgram, gpu.Warning, restartProgram},
	{[]int{45}, "work removed because of an earlier error or a killed program", gpu.FaultProgram, gpu.Warning, restartProgram},
	{[]int{60}, "security engine exception", gpu.FaultProgram, gpu.Warning, restartProgram},
	{[]int{65, 68, 83, 84, 88, 89, 96, 97, 98}, "video decoder exception", gpu.FaultProgram, gpu.Warning, restartProgram},
	{[]int{142}, "video encoder exception", gpu.FaultProgram, gpu.Warning, restartProgram},
	{[]int{80}, "command stream failed its checksum", gpu.FaultProgram, gpu.Warning, debugProgram},
	{[]int{82, 99, 100, 101, 102, 103, 104, 105}, "JPEG engine exception", gpu.FaultProgram, gpu.Warning, restartProgram},
	{[]int{86, 139}, "optical flow engine exception", gpu.FaultProgram, gpu.Warning, restartProgram},
	{[]int{94}, "memory error that was contained in one program", gpu.FaultProgram, gpu.Warning,
		"restart the program; the GPU needs a reset only at the next opportunity."},
	{[]int{109}, "context switch timed out", gpu.FaultProgram, gpu.Warning, restartProgram},

	// The device must not be used until something is done about it.
	{[]int{46}, "the GPU stopped answering", gpu.FaultDevice, gpu.Serious, resetDevice},
	{[]int{48}, "memory error that could not be corrected", gpu.FaultDevice, gpu.Serious, resetDevice},
	{[]int{57, 58}, "unstable memory interface", gpu.FaultDevice, gpu.Serious, resetDevice},
	{[]int{59, 61, 62}, "a management controller inside the GPU halted", gpu.FaultDevice, gpu.Serious, resetDevice},
	{[]int{64}, "bad memory could not be taken out of use", gpu.FaultDevice, gpu.Serious,
		"reset the GPU; if it comes back, have the GPU replaced."},
	{[]int{74}, "NVLink error", gpu.FaultLink, gpu.Serious, checkLinks},
	{[]int{144, 145, 146, 149, 150, 155}, "NVLink error", gpu.FaultLink, gpu.Serious, checkLinks},
	{[]int{136}, "NVLink training failed", gpu.FaultLink, gpu.Serious, checkLinks},
	{[]int{79}, "the GPU fell off the bus", gpu.FaultDevice, gpu.Serious,
		"reboot the machine; if it comes back, check the seating, the power supply and the cooling of the GPU."},
	{[]int{95}, "memory error that may have reached several programs", gpu.FaultDevice, gpu.Serious, resetDevice},
	{[]int{110}, "security fault", gpu.FaultDevice, gpu.Serious, resetDevice},
	{[]int{119, 120}, "the GPU's system processor stopped answering", gpu.FaultDevice, gpu.Serious, resetDevice},
	{[]int{140}, "memory error that could not be recovered", gpu.FaultDevice, gpu.Serious, resetDevice},
	{[]int{143}, "the GPU could not be initialised", gpu.FaultDevice, gpu.Serious, resetDevice},
	{[]int{151}, "key rotation failed", gpu.FaultDevice, gpu.Serious, "restart the virtual machine, or reboot."},
	{[]int{156}, "a part of the GPU was taken out of use", gpu.FaultDevice, gpu.Serious, resetDevice},
	{[]int{158}, "fatal timeout inside the GPU", gpu.FaultDevice, gpu.Serious, resetDevice},
	{[]int{167}, "fatal timeout on the PCIe bus", gpu.FaultDevice, gpu.Serious, resetDevice},
	{[]int{169}, "security processor halted", gpu.FaultDevice, gpu.Serious, resetDevice},
	{[]int{171, 172}, "memory error that could not be corrected", gpu.FaultDevice, gpu.Serious, resetDevice},

	// These only deserve a note.
	{[]int{14}, "test message of the driver", gpu.FaultDriver, gpu.Note, watchDevice},
	{[]int{37, 38, 44, 66, 67}, "firmware or driver complaint", gpu.FaultDriver, gpu.Note, updateDriver},
	{[]int{54}, "auxiliary power is not connected or too weak", gpu.FaultDevice, gpu.Note, "check the power cables of the GPU."},
	{[]int{56, 81}, "display engine error", gpu.FaultDevice, gpu.Note, updateDriver},
	{[]int{63}, "bad memory was taken out of use", gpu.FaultDevice, gpu.Note,
		"nothing needs to be done now; the replacement takes effect at the next reset of the GPU."},
	{[]int{78}, "virtual GPU did not start", gpu.FaultDriver, gpu.Note, updateDriver},
	{[]int{92}, "many corrected memory errors", gpu.FaultDevice, gpu.Note, watchDevice},
	{[]int{93}, "too many writes to the GPU's configuration memory", gpu.FaultDevice, gpu.Note, watchDevice},
	{[]int{106, 107}, "test message of the management bus", gpu.FaultDriver, gpu.Note, watchDevice},
	{[]int{108, 137, 147, 148, 166, 170}, "NVLink access was refused", gpu.FaultLink, gpu.Note,
		"look for a program on a GPU at the other end that failed at the same time."},
	{[]int{121}, "chip-to-chip link error that was corrected", gpu.FaultLink, gpu.Note, watchDevice},
	{[]int{141}, "error on the fast command path", gpu.FaultDevice, gpu.Note, watchDevice},
	{[]int{154}, "the driver changed what it recommends for recovery", gpu.FaultDriver, gpu.Note,
		"see GPU Recovery Action in nvidia-smi -q, and the error reported with it."},
	{[]int{157}, "a part of the GPU could not be taken out of use", gpu.FaultDevice, gpu.Note, "ask the vendor."},
	{[]int{159}, "error on the coherent link to the CPU", gpu.FaultLink, gpu.Note, watchDevice},
	{[]int{160, 161}, "a channel inside the GPU was taken out of use", gpu.FaultDevice, gpu.Note, watchDevice},
	{[]int{162, 163, 164, 165}, "power smoothing changed", gpu.FaultDevice, gpu.Note, watchDevice},
	{[]int{168}, "the GPU runs with less memory than it has", gpu.FaultDevice, gpu.Note, "ask the vendor."},
}
