// Package maker says what sets the vendors of GPUs apart, for those who start programs,
// write files for container runtimes, or look what is missing on a machine.
//
// Pure: no clock, no I/O.
package maker

import "github.com/berth-gpu/berth/gpu"

// Maker is a vendor of GPUs.
type Maker struct {
	Vendor  gpu.Vendor
	Label   string // what people call it
	Runtime string // its library for computing
	Shows   []Variable

	PCI     string   // vendor id on the bus
	Modules []string // folders, one of which exists once a driver is loaded
	Version string   // file with the driver's version; empty if it has the kernel's
	Files   []string // patterns of the device files that a process must be able to open
	Install string   // what to do when the driver is not loaded
	Absent  string   // what to do when there are no device files

	CDI       []string // kinds of its devices in files for container runtimes
	WriteCDI  string   // what to do when there are no such files
	Resources []string // by which its device plugins offer GPUs in Kubernetes
}

// Variable is an environment variable that shows a program the devices of its lease and
// no others, or says how they are counted. Its value is a text, and a list of the devices
// behind it.
type Variable struct {
	Name string
	Text string
	List List
}

// List is how a variable lists devices.
type List int

// The ways to list devices.
const (
	Nothing List = iota
	Names        // by what the runtime calls them
	Count        // from 0 up to the number of devices
)

var makers = []Maker{
	{
		Vendor: gpu.NVIDIA, Label: "NVIDIA", Runtime: "CUDA",
		// The order is for programs that ask for device 1 of several.
		Shows: []Variable{{"CUDA_VISIBLE_DEVICES", "", Names}, {"CUDA_DEVICE_ORDER", "PCI_BUS_ID", Nothing}},

		PCI: "0x10de", Modules: []string{"sys/module/nvidia"}, Version: "proc/driver/nvidia/version",
		Files:   []string{"dev/nvidiactl", "dev/nvidia-uvm", "dev/nvidia[0-9]*"},
		Install: "install the NVIDIA driver and load it: sudo modprobe nvidia",
		Absent:  "in a container, pass the GPUs in (--gpus all); elsewhere, run nvidia-smi once as root, which makes them",

		CDI:       []string{"nvidia.com/gpu", "nvidia.com/mig"},
		WriteCDI:  "install the NVIDIA Container Toolkit 1.18 or newer, which writes them by itself, or run nvidia-ctk cdi generate --device-name-strategy=uuid --output=/etc/cdi/nvidia.yaml",
		Resources: []string{"nvidia.com/gpu"},
	},
	{
		Vendor: gpu.AMD, Label: "AMD", Runtime: "ROCm",
		// HIP and OpenCL count the devices that ROCm shows them. A scheduler around berth, such
		// as Slurm, may have set the last one to places among all devices.
		Shows: []Variable{{"ROCR_VISIBLE_DEVICES", "", Names}, {"HIP_VISIBLE_DEVICES", "", Count}, {"GPU_DEVICE_ORDINAL", "", Count}},

		PCI: "0x1002", Modules: []string{"sys/module/amdgpu"}, Version: "sys/module/amdgpu/version",
		Files:   []string{"dev/kfd", "dev/dri/renderD*"},
		Install: "load the driver: sudo modprobe amdgpu",
		Absent:  "in a container, pass the GPUs in (--device /dev/kfd --device /dev/dri)",

		CDI:       []string{"amd.com/gpu"},
		WriteCDI:  "install the AMD Container Toolkit and run amd-ctk cdi generate --output=/etc/cdi/amd.json",
		Resources: []string{"amd.com/gpu"},
	},
	{
		Vendor: gpu.Intel, Label: "Intel", Runtime: "Level Zero",
		// Level Zero numbers devices by their addresses and as whole cards, and SYCL counts
		// the ones that are left. SYCL reaches GPUs through OpenCL too, which has no such
		// mask: its selector closes that way.
		Shows: []Variable{{"ZE_ENABLE_PCI_ID_DEVICE_ORDER", "1", Nothing}, {"ZE_FLAT_DEVICE_HIERARCHY", "COMPOSITE", Nothing},
			{"ZE_AFFINITY_MASK", "", Names}, {"ONEAPI_DEVICE_SELECTOR", "level_zero:", Count}},

		PCI: "0x8086", Modules: []string{"sys/module/xe", "sys/module/i915"},
		Files:   []string{"dev/dri/renderD*"},
		Install: "load the driver: sudo modprobe xe, or sudo modprobe i915",
		Absent:  "in a container, pass the GPUs in (--device /dev/dri)",

		CDI:       []string{"intel.com/gpu"},
		WriteCDI:  "write them with Intel's CDI specs generator, intel-cdi-specs-generator gpu",
		Resources: []string{"gpu.intel.com/i915", "gpu.intel.com/xe"},
	},
}

// All returns the vendors that berth knows. The caller must not change them.
func All() []Maker { return makers }

// Of returns what berth knows about a vendor, or nil.
func Of(v gpu.Vendor) *Maker {
	for i := range makers {
		if makers[i].Vendor == v {
			return &makers[i]
		}
	}
	return nil
}
