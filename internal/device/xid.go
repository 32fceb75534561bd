package device

import (
	"fmt"
	"slices"
)

// XID is what is known about one of the numbered errors that the NVIDIA
// driver reports.
type XID struct {
	Code   int
	Name   string // what happened, in a few words
	Class  FaultClass
	Remedy string // what to do, one sentence
}

// String is the sentence for people.
func (x XID) String() string {
	return fmt.Sprintf("XID %d, %s: %s", x.Code, x.Name, x.Remedy)
}

// DescribeXID looks a code up in NVIDIA's catalogue. A code that is not in it
// is a note: numbers are added with every driver, most of them harmless, and a
// device that is really broken also stops answering or reports one of the
// codes below, so a strange number alone takes no GPU out of service.
func DescribeXID(code int) XID {
	for _, entry := range xidCatalogue {
		if slices.Contains(entry.codes, code) {
			return XID{Code: code, Name: entry.name, Class: entry.class, Remedy: entry.remedy}
		}
	}
	return XID{
		Code: code, Name: "an error that berth does not know", Class: ClassNote,
		Remedy: "look the number up in NVIDIA's XID catalogue.",
	}
}

// Remedies that many codes share.
const (
	restartProgram = "restart the program; if other programs fail in the same way, run the vendor's diagnostics."
	debugProgram   = "look for the mistake in the program, for example with compute-sanitizer."
	resetDevice    = "stop the work on this GPU and reset it with nvidia-smi --gpu-reset, or reboot."
	watchDevice    = "nothing needs to be done now; if it is reported again and again, ask the vendor."
	checkLinks     = "stop the work on this GPU and reset it; if it comes back, check the NVLink bridges, cables and switches."
	updateDriver   = "update the driver and the firmware; if it stays, ask the vendor."
)

// xidCatalogue follows the actions that NVIDIA's public catalogue recommends:
// where only the program has to be started again the class is application,
// where the GPU has to be reset or replaced it is device. Two readings are our
// own. A context switch timeout (109) is charged to the program, as NVIDIA's
// Kubernetes plugin does. Corrected memory errors, a high rate of them (92)
// and rows that were remapped in time (63) leave the data right and are notes.
var xidCatalogue = []struct {
	codes  []int
	name   string
	class  FaultClass
	remedy string
}{
	// The program did something wrong, or its channel was torn down.
	{[]int{8, 43}, "the GPU stopped working on a program", ClassApplication, restartProgram},
	{[]int{11, 32}, "corrupted command stream", ClassApplication, debugProgram},
	{[]int{13}, "graphics or compute engine exception", ClassApplication, debugProgram},
	{[]int{25, 69}, "illegal command for the graphics or compute engine", ClassApplication, debugProgram},
	{[]int{31}, "access to memory that is not mapped", ClassApplication, debugProgram},
	{[]int{39, 40, 41, 70, 71, 72, 75, 76, 77, 85, 126, 127, 128, 129, 130, 131, 132, 133, 134, 135},
		"copy engine exception", ClassApplication, restartProgram},
	{[]int{45}, "work removed because of an earlier error or a killed program", ClassApplication, restartProgram},
	{[]int{60}, "security engine exception", ClassApplication, restartProgram},
	{[]int{65, 68, 83, 84, 88, 89, 96, 97, 98}, "video decoder exception", ClassApplication, restartProgram},
	{[]int{142}, "video encoder exception", ClassApplication, restartProgram},
	{[]int{80}, "command stream failed its checksum", ClassApplication, debugProgram},
	{[]int{82, 99, 100, 101, 102, 103, 104, 105}, "JPEG engine exception", ClassApplication, restartProgram},
	{[]int{86, 139}, "optical flow engine exception", ClassApplication, restartProgram},
	{[]int{94}, "memory error that was contained in one program", ClassApplication,
		"restart the program; the GPU needs a reset only at the next opportunity."},
	{[]int{109}, "context switch timed out", ClassApplication, restartProgram},

	// The device is not to be trusted until something is done about it.
	{[]int{46}, "the GPU stopped answering", ClassDevice, resetDevice},
	{[]int{48}, "memory error that could not be corrected", ClassDevice, resetDevice},
	{[]int{57, 58}, "unstable memory interface", ClassDevice, resetDevice},
	{[]int{59, 61, 62}, "a management controller inside the GPU halted", ClassDevice, resetDevice},
	{[]int{64}, "bad memory could not be taken out of use", ClassDevice,
		"reset the GPU; if it comes back, have the GPU replaced."},
	{[]int{74}, "NVLink error", ClassDevice, checkLinks},
	{[]int{144, 145, 146, 149, 150, 155}, "NVLink error", ClassDevice, checkLinks},
	{[]int{136}, "NVLink training failed", ClassDevice, checkLinks},
	{[]int{79}, "the GPU fell off the bus", ClassDevice,
		"reboot the machine; if it comes back, check the seating, the power supply and the cooling of the GPU."},
	{[]int{95}, "memory error that may have reached several programs", ClassDevice, resetDevice},
	{[]int{110}, "security fault", ClassDevice, resetDevice},
	{[]int{119, 120}, "the GPU's system processor stopped answering", ClassDevice, resetDevice},
	{[]int{140}, "memory error that could not be recovered", ClassDevice, resetDevice},
	{[]int{143}, "the GPU could not be initialised", ClassDevice, resetDevice},
	{[]int{151}, "key rotation failed", ClassDevice, "restart the virtual machine, or reboot."},
	{[]int{156}, "a part of the GPU was taken out of use", ClassDevice, resetDevice},
	{[]int{158}, "fatal timeout inside the GPU", ClassDevice, resetDevice},
	{[]int{167}, "fatal timeout on the PCIe bus", ClassDevice, resetDevice},
	{[]int{169}, "security processor halted", ClassDevice, resetDevice},
	{[]int{171, 172}, "memory error that could not be corrected", ClassDevice, resetDevice},

	// Worth writing down.
	{[]int{14}, "test message of the driver", ClassNote, watchDevice},
	{[]int{37, 38, 44, 66, 67}, "firmware or driver complaint", ClassNote, updateDriver},
	{[]int{54}, "auxiliary power is not connected or too weak", ClassNote, "check the power cables of the GPU."},
	{[]int{56, 81}, "display engine error", ClassNote, updateDriver},
	{[]int{63}, "bad memory was taken out of use", ClassNote,
		"nothing needs to be done now; the replacement takes effect at the next reset of the GPU."},
	{[]int{78}, "virtual GPU did not start", ClassNote, updateDriver},
	{[]int{92}, "many corrected memory errors", ClassNote, watchDevice},
	{[]int{93}, "too many writes to the GPU's configuration memory", ClassNote, watchDevice},
	{[]int{106, 107}, "test message of the management bus", ClassNote, watchDevice},
	{[]int{108, 137, 147, 148, 166, 170}, "NVLink access was refused", ClassNote,
		"look for a program on a GPU at the other end that failed at the same time."},
	{[]int{121}, "chip-to-chip link error that was corrected", ClassNote, watchDevice},
	{[]int{141}, "error on the fast command path", ClassNote, watchDevice},
	{[]int{154}, "the driver changed what it recommends for recovery", ClassNote,
		"see GPU Recovery Action in nvidia-smi -q, and the error reported with it."},
	{[]int{157}, "a part of the GPU could not be taken out of use", ClassNote, "ask the vendor."},
	{[]int{159}, "error on the coherent link to the CPU", ClassNote, watchDevice},
	{[]int{160, 161}, "a channel inside the GPU was taken out of use", ClassNote, watchDevice},
	{[]int{162, 163, 164, 165}, "power smoothing changed", ClassNote, watchDevice},
	{[]int{168}, "the GPU runs with less memory than it has", ClassNote, "ask the vendor."},
}
