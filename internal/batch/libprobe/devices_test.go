package libprobe

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
)

// Libraries that look like the real ones where the probe touches them.
const (
	fakeTorch = `
__version__ = "2.11.0+cu130"
class version: cuda = "13.0"; hip = None
class Properties:
    def __init__(self, i): self.name, self.uuid = "NVIDIA H200", "5f12ab00-0000-0000-0000-00000000000%d" % i
class cuda:
    is_available = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 2)
    get_device_properties = staticmethod(Properties)
`
	fakeTorchROCm = `
__version__ = "2.4.0+rocm6.1"
class version: cuda = None; hip = "6.1"
class Properties: name, uuid, pci_domain_id, pci_bus_id, pci_device_id = "MI300X", "another number", 0, 0x1b, 2
class cuda:
    is_available = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 1)
    get_device_properties = staticmethod(lambda i: Properties)
`
	fakeTorchCPU = `
__version__ = "2.4.0+cpu"
class version: cuda = None; hip = None
class cuda: is_available = staticmethod(lambda: False)
`
	fakeTorchNoDriver = `
__version__ = "2.4.0"
class version: cuda = "12.4"; hip = None
class cuda: is_available = staticmethod(lambda: False)
`
	fakeCupy = `
__version__ = "14.0.0"
class cuda:
    class runtime:
        CUDARuntimeError = RuntimeError
        getDeviceCount = staticmethod(lambda: 1)
        deviceGetPCIBusId = staticmethod(lambda i: b"0000:1B:00.0")
`
	fakeCupyNoDevice = `
__version__ = "14.0.0"
class CUDARuntimeError(RuntimeError): status = 100
class cuda:
    class runtime:
        CUDARuntimeError = CUDARuntimeError
        @staticmethod
        def getDeviceCount(): raise CUDARuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")
`
	fakeCupyIll = `
__version__ = "14.0.0"
class CUDARuntimeError(RuntimeError): status = 999
class cuda:
    class runtime:
        CUDARuntimeError = CUDARuntimeError
        @staticmethod
        def getDeviceCount(): raise CUDARuntimeError("cudaErrorUnknown: unknown error")
`
	fakeJAX = `
__version__ = "0.11.0"
class Device:
    platform, device_kind, local_hardware_id = "gpu", "NVIDIA H200", 4096
devices = lambda: [Device]
`
	fakeJAXCPU = `
__version__ = "0.11.0"
class Device: platform = "cpu"
devices = lambda: [Device]
`
	fakeTensorflow = `
__version__ = "2.17.0"
class config: list_physical_devices = staticmethod(lambda kind: ["one"])
`
	fakeDeviceLib = `
class CPU: device_type, physical_device_desc = "CPU", ""
class GPU: device_type, physical_device_desc = "GPU", "device: 0, name: NVIDIA H200, pci bus id: 0000:1b:00.0, compute capability: 9.0"
list_local_devices = lambda: [CPU, GPU]
`
	fakeTensorflowNone = `
__version__ = "2.17.0"
class config: list_physical_devices = staticmethod(lambda kind: [])
`
	fakeCle     = "__version__ = '0.17'\nlist_available_devices = lambda: ['NVIDIA H200', 'NVIDIA H200']"
	fakeCleNone = "__version__ = '0.17'\navailable_device_names = lambda: []"
	fakeCrash   = fakeTorch + "\nimport os, signal\ncuda.device_count = lambda: os.kill(os.getpid(), signal.SIGABRT)"
	fakeExit    = fakeTorch + "\nimport os\ncuda.device_count = lambda: os._exit(4)"
)

func TestDevices(t *testing.T) {
	for _, c := range []struct {
		name, library string
		sources       map[string]string
		want          api.Library
	}{
		{"torch", "torch", map[string]string{"torch.py": fakeTorch}, api.Library{
			Version: "2.11.0+cu130", Devices: []api.VisibleGPU{
				{UUID: "5f12ab00-0000-0000-0000-000000000000", Name: "NVIDIA H200"},
				{UUID: "5f12ab00-0000-0000-0000-000000000001", Name: "NVIDIA H200"},
			},
		}},
		{"torch on ROCm", "torch", map[string]string{"torch.py": fakeTorchROCm}, api.Library{
			Version: "2.4.0+rocm6.1", Devices: []api.VisibleGPU{{PCI: "0:1b:2.0", Name: "MI300X"}},
		}},
		{"torch for the CPU", "torch", map[string]string{"torch.py": fakeTorchCPU}, api.Library{
			Version: "2.4.0+cpu", Devices: []api.VisibleGPU{}, Reason: "it was built without CUDA",
		}},
		{"torch without a driver", "torch", map[string]string{"torch.py": fakeTorchNoDriver}, api.Library{
			Version: "2.4.0", Devices: []api.VisibleGPU{}, Reason: "torch.cuda.is_available() says no",
		}},
		{"torch that crashes in the driver", "torch", map[string]string{"torch.py": fakeCrash}, api.Library{
			Version: "2.11.0+cu130", DevicesUnknown: "asked for its GPUs, it crashed: killed by SIGABRT",
		}},
		{"torch that leaves in the driver", "torch", map[string]string{"torch.py": fakeExit}, api.Library{
			Version: "2.11.0+cu130", DevicesUnknown: "asked for its GPUs, it gave no answer: it ended with status 4",
		}},
		{"cupy", "cupy", map[string]string{"cupy.py": fakeCupy}, api.Library{
			Version: "14.0.0", Devices: []api.VisibleGPU{{PCI: "0000:1B:00.0"}},
		}},
		{"cupy without a GPU", "cupy", map[string]string{"cupy.py": fakeCupyNoDevice}, api.Library{
			Version: "14.0.0", Devices: []api.VisibleGPU{},
			Reason: "CUDARuntimeError: cudaErrorNoDevice: no CUDA-capable device is detected",
		}},
		{"cupy with an ill driver", "cupy", map[string]string{"cupy.py": fakeCupyIll}, api.Library{
			Version: "14.0.0", DevicesUnknown: "CUDARuntimeError: cudaErrorUnknown: unknown error",
			Reason: "CUDARuntimeError: cudaErrorUnknown: unknown error",
		}},
		{"jax where the driver does not know the device", "jax", map[string]string{"jax.py": fakeJAX}, api.Library{
			Version: "0.11.0", DevicesUnknown: "it gives no UUID and no PCI address, only names: NVIDIA H200",
		}},
		{"jax for the CPU", "jax", map[string]string{"jax.py": fakeJAXCPU}, api.Library{
			Version: "0.11.0", Devices: []api.VisibleGPU{}, Reason: "its devices are cpu",
		}},
		{"tensorflow", "tensorflow", map[string]string{
			"tensorflow/__init__.py": fakeTensorflow, "tensorflow/python/__init__.py": "",
			"tensorflow/python/client/__init__.py": "", "tensorflow/python/client/device_lib.py": fakeDeviceLib,
		}, api.Library{
			Version: "2.17.0", Devices: []api.VisibleGPU{{PCI: "0000:1b:00.0", Name: "NVIDIA H200"}},
		}},
		{"tensorflow without a GPU", "tensorflow", map[string]string{"tensorflow.py": fakeTensorflowNone}, api.Library{
			Version: "2.17.0", Devices: []api.VisibleGPU{}, Reason: "tensorflow lists no GPU",
		}},
		{"pyclesperanto", "pyclesperanto", map[string]string{"pyclesperanto.py": fakeCle}, api.Library{
			Version: "0.17", DevicesUnknown: "it gives no UUID and no PCI address, only names: NVIDIA H200",
		}},
		{"pyclesperanto without a GPU", "pyclesperanto", map[string]string{"pyclesperanto.py": fakeCleNone}, api.Library{
			Version: "0.17", Devices: []api.VisibleGPU{}, Reason: "pyclesperanto lists no device",
		}},
		{"torch that changed beyond recognition", "torch", map[string]string{"torch.py": "__version__ = '9'"}, api.Library{
			Version: "9", DevicesUnknown: "AttributeError: module 'torch' has no attribute 'cuda'",
			Reason: "AttributeError: module 'torch' has no attribute 'cuda'",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			report, err := Prober{}.Probe(t.Context(), python(t), modules(t, c.sources), []string{c.library})
			if err != nil {
				t.Fatal(err)
			}
			c.want.Status = api.LibraryOK
			if diff := cmp.Diff(c.want, report.Libraries[c.library]); diff != "" {
				t.Error(diff)
			}
		})
	}
}
