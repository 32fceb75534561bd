package launch

import (
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/gpu"
)

// The ways to keep a program from the devices of others.
const (
	ByEnv    = "env"    // its environment names the devices of the lease
	ByCgroup = "cgroup" // the kernel refuses to open the others
)

// isolationVariable tells a program that the kernel keeps it from the devices of
// others.
const isolationVariable = "BERTH_ISOLATION"

// InCgroup reports whether changes of an environment, see Changes, are for a program that
// must be in the control group of its lease before it begins.
func InCgroup(changes []string) bool {
	for _, c := range changes {
		if c == isolationVariable+"="+ByCgroup {
			return true
		}
	}
	return false
}

// isolate shows the program the devices of the lease and no others, by the
// variables of each vendor's runtime.
func (e *editor) isolate(devices []gpu.Device, r *Receipt) {
	var amd, intel, others []gpu.Device
	for _, d := range devices {
		switch d.Vendor {
		case gpu.AMD:
			amd = append(amd, d)
		case gpu.Intel:
			intel = append(intel, d)
		default:
			others = append(others, d)
		}
	}
	if len(amd) > 0 {
		e.isolateAMD(amd, r)
	}
	if len(intel) > 0 {
		e.isolateIntel(intel, r)
	}
	if len(amd) > 0 && len(others) == 0 {
		e.unset("CUDA_VISIBLE_DEVICES") // HIP reads it too, and does not understand a UUID
		return
	}
	e.isolateNVIDIA(others, r)
}

// isolateNVIDIA names devices by UUID, so the order in which CUDA counts does not matter.
// It sets the order for programs that ask for device 1 of several.
func (e *editor) isolateNVIDIA(devices []gpu.Device, r *Receipt) {
	var uuids []string
	instances := 0
	for _, d := range devices {
		uuids = append(uuids, d.UUID)
		if d.Parent != "" {
			instances++
		}
	}
	e.set("CUDA_VISIBLE_DEVICES", strings.Join(uuids, ","))
	e.set("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
	if instances > 0 && len(devices) > 1 {
		r.miss("CUDA shows a process one MIG instance: of these devices it sees the first only, so start one process for each")
	}
}

// isolateAMD names devices to ROCm by UUID, or by number if a device has none, and lets
// HIP count the remaining ones.
func (e *editor) isolateAMD(devices []gpu.Device, r *Receipt) {
	var names, count []string
	for i, d := range devices {
		name := d.UUID
		if strings.Contains(d.UUID, "-at-") { // its place identifies it
			n, known := d.Ordinal.Get()
			if !known {
				r.miss("%s: ROCm has no name for it, so the program sees every AMD GPU", d.Label())
				e.unset("ROCR_VISIBLE_DEVICES")
				e.unset("HIP_VISIBLE_DEVICES")
				return
			}
			name = strconv.Itoa(n)
		}
		names, count = append(names, name), append(count, strconv.Itoa(i))
	}
	e.set("ROCR_VISIBLE_DEVICES", strings.Join(names, ","))
	e.set("HIP_VISIBLE_DEVICES", strings.Join(count, ","))
}

// isolateIntel names devices to Level Zero by number, counted by their addresses and as
// whole cards, and lets SYCL count the remaining ones. SYCL reaches GPUs through OpenCL
// too, which has no such mask, so isolateIntel closes that way.
func (e *editor) isolateIntel(devices []gpu.Device, r *Receipt) {
	var numbers, count []string
	for i, d := range devices {
		n, known := d.Ordinal.Get()
		if !known {
			r.miss("%s: Level Zero has no name for it, so the program sees every Intel GPU", d.Label())
			return
		}
		numbers, count = append(numbers, strconv.Itoa(n)), append(count, strconv.Itoa(i))
	}
	e.set("ZE_ENABLE_PCI_ID_DEVICE_ORDER", "1")
	e.set("ZE_FLAT_DEVICE_HIERARCHY", "COMPOSITE")
	e.set("ZE_AFFINITY_MASK", strings.Join(numbers, ","))
	e.set("ONEAPI_DEVICE_SELECTOR", "level_zero:"+strings.Join(count, ","))
}

// separate writes into the receipt what separates this program from others: what keeps it
// from their devices, and who clears the memory that they had.
func (e *editor) separate(ladder Ladder, r *Receipt) {
	r.IsolatedBy, r.ClearedBy = ByEnv, ladder.ClearedBy
	if ladder.Isolation == ByCgroup {
		r.IsolatedBy = ByCgroup
		e.set(isolationVariable, ByCgroup)
		r.hold("other NVIDIA GPUs: the kernel does not let it open them (control group with a device filter)")
		r.miss("root, and a user who owns a control group around the program, can move it out of its own")
	} else {
		r.miss("other GPUs: they are hidden by variables, which a program can change; --isolation cgroup makes the kernel refuse them")
	}
	switch {
	case strings.HasPrefix(ladder.ClearedBy, "driver"), ladder.ClearedBy == "berth":
		r.hold("memory of earlier programs: cleared_by: %s", ladder.ClearedBy)
	case ladder.ClearedBy != "":
		r.miss("memory of earlier programs: cleared_by: %s; test/bench/gpu/residue.sh looks whether any is left", ladder.ClearedBy)
	}
}
