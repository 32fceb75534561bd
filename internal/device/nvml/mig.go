package nvml

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/berth-gpu/berth/gpu"
)

// slice identifies the part of a GPU that a MIG instance is, in the numbers of the
// driver's events.
type slice struct {
	parent            string
	instance, compute int
}

// instances lists the MIG instances of a GPU, if it has any. They come and go while the
// machine runs, so every scan lists them. It returns an error if the driver does not say
// which there are: a GPU that is taken for one without instances could be leased as a whole
// beside them.
func (b *Backend) instances(s *session, h nvml.Device, parent *card) (found []*card, err error) {
	if !s.hasMIG {
		return nil, nil
	}
	mode, _, ret := h.GetMigMode()
	if unsupported(ret) || ret == nvml.ERROR_INVALID_ARGUMENT || ret == nvml.SUCCESS && mode != nvml.DEVICE_MIG_ENABLE {
		return nil, nil
	}
	most := 0
	if ret == nvml.SUCCESS {
		most, ret = h.GetMaxMigDeviceCount()
	}
	for i := 0; i < most && ret == nvml.SUCCESS; i++ {
		var in nvml.Device
		if in, ret = h.GetMigDeviceHandleByIndex(i); ret == nvml.ERROR_NOT_FOUND || ret == nvml.ERROR_INVALID_ARGUMENT || unsupported(ret) {
			ret = nvml.SUCCESS // the numbering has gaps, and some may not be for this user
			continue
		}
		if ret != nvml.SUCCESS {
			break
		}
		var uuid string
		if uuid, ret = in.GetUUID(); ret == nvml.SUCCESS {
			found = append(found, b.adopt(uuid, func() *card { return b.identifyInstance(in, uuid, parent) }))
		}
	}
	if ret != nvml.SUCCESS {
		return nil, failure("list the instances of "+parent.uuid, ret)
	}
	return found, nil
}

// identifyInstance describes an instance, and copies what it shares with its GPU. The
// power limit belongs to the whole GPU and is not copied.
func (b *Backend) identifyInstance(h nvml.Device, uuid string, parent *card) *card {
	whole := parent.Describe()
	d := gpu.Device{
		UUID: uuid, Name: whole.Name + " MIG", Vendor: whole.Vendor, Backend: whole.Backend, Driver: whole.Driver,
		PCI: whole.PCI, ComputeCapability: whole.ComputeCapability, NUMANode: whole.NUMANode, Confidential: whole.Confidential, Parent: whole.UUID,
		TempSlowdown: whole.TempSlowdown, TempMax: whole.TempMax, TempShutdown: whole.TempShutdown,
	}
	if name, ret := h.GetName(); ret == nvml.SUCCESS {
		d.Name = name
	}
	if m, ret := h.GetMemoryInfo(); ret == nvml.SUCCESS {
		d.MemoryTotal = gpu.MiBOf(m.Total)
	}
	part := &slice{parent: whole.UUID, instance: -1, compute: -1}
	if id, ret := h.GetGpuInstanceId(); ret == nvml.SUCCESS {
		part.instance = id
	}
	if id, ret := h.GetComputeInstanceId(); ret == nvml.SUCCESS {
		part.compute = id
	}
	return &card{lib: b.lib, roots: b.roots, uuid: uuid, pci: d.PCI, slice: part, desc: d}
}

// instanceOf finds the MIG instance that an event of a GPU is about. It asks the driver
// which instances there are now: their numbers are used again, and the last scan may have
// seen others.
func (b *Backend) instanceOf(s *session, h nvml.Device, parent *card, event nvml.EventData) (string, bool) {
	if event.GpuInstanceId == noInstance {
		return "", false
	}
	wanted := slice{parent.uuid, int(event.GpuInstanceId), int(event.ComputeInstanceId)}
	instances, err := b.instances(s, h, parent)
	if err != nil {
		return "", false
	}
	for _, c := range instances {
		if *c.slice == wanted {
			return c.uuid, true
		}
	}
	return "", false
}

// noInstance is the number of an instance in an event about a whole GPU.
const noInstance = 0xFFFFFFFF

// findWhole finds the GPU that an instance is part of, whose heat and clocks the instance
// shares. It returns nil if the driver does not find it.
func (s *session) findWhole(c *card) nvml.Device {
	if c.pci != "" {
		if h, ret := s.api.DeviceGetHandleByPciBusId(c.pci); ret == nvml.SUCCESS {
			if uuid, ret := h.GetUUID(); ret == nvml.SUCCESS && uuid == c.slice.parent {
				return h
			}
		}
	}
	h, ret := s.api.DeviceGetHandleByUUID(c.slice.parent)
	if ret != nvml.SUCCESS {
		return nil
	}
	return h
}
