package promexport

import (
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-gpu/berth/gpu"
)

// The names and labels of NVIDIA's dcgm-exporter, so that dashboards and rules made for it
// work. The page has only the values that berth measures with the same meaning and unit.

// dcgmMetric returns a metric with the labels of dcgm-exporter, in its order.
func dcgmMetric(kind prometheus.ValueType, name, help string) *family {
	return metric(kind, name, help, "gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname", "DCGM_FI_DRIVER_VERSION")
}

var dcgmMetrics = []reading{
	{dcgmMetric(gauge, "DCGM_FI_DEV_SM_CLOCK", "Clock of the multiprocessors, in MHz."), measured(func(s *gpu.Sample) gpu.Opt[gpu.MHz] { return s.ClockSM })},
	{dcgmMetric(gauge, "DCGM_FI_DEV_MEM_CLOCK", "Clock of the memory, in MHz."), measured(func(s *gpu.Sample) gpu.Opt[gpu.MHz] { return s.ClockMemory })},
	{dcgmMetric(gauge, "DCGM_FI_DEV_GPU_TEMP", "Temperature of the chip, in °C."), measured(func(s *gpu.Sample) gpu.Opt[gpu.Celsius] { return s.Temperature })},
	{dcgmMetric(gauge, "DCGM_FI_DEV_MEMORY_TEMP", "Temperature of the memory, in °C."), measured(func(s *gpu.Sample) gpu.Opt[gpu.Celsius] { return s.MemoryTemperature })},
	{dcgmMetric(gauge, "DCGM_FI_DEV_POWER_USAGE", "Power drawn, in W."), measured(ownPower)},
	{dcgmMetric(counter, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "Energy used since the driver was loaded, in mJ."), millijoules},
	{dcgmMetric(gauge, "DCGM_FI_DEV_GPU_UTIL", "Share of time in which the device worked, in percent."), measured(func(s *gpu.Sample) gpu.Opt[gpu.Percent] { return s.Utilization })},
	{dcgmMetric(gauge, "DCGM_FI_DEV_MEM_COPY_UTIL", "Share of time in which memory was read or written, in percent."), measured(func(s *gpu.Sample) gpu.Opt[gpu.Percent] { return s.MemoryBusy })},
	{dcgmMetric(gauge, "DCGM_FI_DEV_FB_FREE", "Memory not in use, in MiB."), measured(func(s *gpu.Sample) gpu.Opt[gpu.MiB] { return s.MemoryFree })},
	{dcgmMetric(gauge, "DCGM_FI_DEV_FB_USED", "Memory in use, in MiB."), measured(func(s *gpu.Sample) gpu.Opt[gpu.MiB] { return s.MemoryUsed })},
}

var dcgmXID = dcgmMetric(gauge, "DCGM_FI_DEV_XID_ERRORS", "The last XID that the driver reported since berth started; 0: none.")

var millijoules = measured(func(s *gpu.Sample) gpu.Opt[float64] {
	joules, known := s.Energy.Get()
	if !known {
		return s.Energy
	}
	return gpu.Some(joules * 1000)
})

// dcgmFamilies returns every metric under a name of dcgm-exporter.
func dcgmFamilies() []*family {
	all := []*family{dcgmXID}
	for _, m := range dcgmMetrics {
		all = append(all, m.family)
	}
	return all
}

// putDCGM adds nothing unless these names are enabled. It omits an instance of a device,
// which dcgm-exporter shows with labels that berth lacks.
func (e *Exporter) putDCGM(now *Values, out lines) {
	if now.Compat != "dcgm" {
		return
	}
	for i := range now.Readings {
		r := &now.Readings[i]
		if r.Device.Parent != "" {
			continue
		}
		labels := dcgmLabels(&r.Device, e.from.Host)
		for _, m := range dcgmMetrics {
			if v, known := m.value(r).Get(); known {
				out.put(m.family, v, labels...)
			}
		}
		if r.Device.Vendor == gpu.NVIDIA && r.Sampled && answers(r) {
			out.put(dcgmXID, e.xids.last(r.Device.UUID), labels...)
		}
	}
}

func dcgmLabels(on *gpu.Device, host string) []string {
	index := strconv.Itoa(on.Index)
	file := strings.TrimPrefix(path.Base(on.Path), ".")
	if file == "" && on.Vendor == gpu.NVIDIA {
		file = "nvidia" + index
	}
	return []string{index, on.UUID, on.PCI, file, on.Name, host, on.Driver}
}

// xids remembers the last XID of each device.
type xids struct {
	mu   sync.Mutex // guards what follows
	seen map[string]float64
}

// note stores the XID of an event.
func (x *xids) note(e *gpu.Event) {
	number, known := e.Data["xid"].(int)
	if e.Code != gpu.EventDeviceFault || e.GPU == "" || !known {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.seen == nil {
		x.seen = map[string]float64{}
	}
	x.seen[e.GPU] = float64(number)
}

func (x *xids) last(uuid string) float64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.seen[uuid]
}
