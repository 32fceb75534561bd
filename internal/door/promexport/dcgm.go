package promexport

import (
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/health/monitor"
)

// dcgm shows the devices under the names and labels of NVIDIA's dcgm-exporter, so that
// dashboards and rules made for it work. It has only the values that berth measures
// with the same meaning and unit.
type dcgm struct {
	from Sources
	xids *xids
}

// dcgmLabels are the labels of dcgm-exporter, in its order.
var dcgmLabels = []string{"gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname", "DCGM_FI_DRIVER_VERSION"}

// dcgmMetric is a metric of dcgm-exporter.
type dcgmMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*monitor.Reading) gpu.Opt[float64]
}

// dcgmFrom returns a metric that is one of the page's own metrics times a factor.
func dcgmFrom[T ~float64 | ~int64](name, help string, kind prometheus.ValueType, factor float64, of func(*gpu.Sample) gpu.Opt[T]) dcgmMetric {
	own := fromSample(name, help, kind, of)
	return dcgmMetric{prometheus.NewDesc(name, help, dcgmLabels, nil), kind, func(r *monitor.Reading) gpu.Opt[float64] {
		v, known := own.value(r).Get()
		if !known {
			return gpu.Opt[float64]{}
		}
		return gpu.Some(v * factor)
	}}
}

var dcgmMetrics = []dcgmMetric{
	dcgmFrom("DCGM_FI_DEV_SM_CLOCK", "Clock of the multiprocessors, in MHz.", gauge, 1, func(s *gpu.Sample) gpu.Opt[gpu.MHz] { return s.ClockSM }),
	dcgmFrom("DCGM_FI_DEV_MEM_CLOCK", "Clock of the memory, in MHz.", gauge, 1, func(s *gpu.Sample) gpu.Opt[gpu.MHz] { return s.ClockMemory }),
	dcgmFrom("DCGM_FI_DEV_GPU_TEMP", "Temperature of the chip, in °C.", gauge, 1, func(s *gpu.Sample) gpu.Opt[gpu.Celsius] { return s.Temperature }),
	dcgmFrom("DCGM_FI_DEV_MEMORY_TEMP", "Temperature of the memory, in °C.", gauge, 1, func(s *gpu.Sample) gpu.Opt[gpu.Celsius] { return s.MemoryTemperature }),
	dcgmFrom("DCGM_FI_DEV_POWER_USAGE", "Power drawn, in W.", gauge, 1, ownPower),
	dcgmFrom("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "Energy used since the driver was loaded, in mJ.", counter, 1000, func(s *gpu.Sample) gpu.Opt[float64] { return s.Energy }),
	dcgmFrom("DCGM_FI_DEV_GPU_UTIL", "Share of time in which the device worked, in percent.", gauge, 1, func(s *gpu.Sample) gpu.Opt[gpu.Percent] { return s.Utilization }),
	dcgmFrom("DCGM_FI_DEV_MEM_COPY_UTIL", "Share of time in which memory was read or written, in percent.", gauge, 1, func(s *gpu.Sample) gpu.Opt[gpu.Percent] { return s.MemoryBusy }),
	dcgmFrom("DCGM_FI_DEV_FB_FREE", "Memory not in use, in MiB.", gauge, 1, func(s *gpu.Sample) gpu.Opt[gpu.MiB] { return s.MemoryFree }),
	dcgmFrom("DCGM_FI_DEV_FB_USED", "Memory in use, in MiB.", gauge, 1, func(s *gpu.Sample) gpu.Opt[gpu.MiB] { return s.MemoryUsed }),
}

var dcgmXID = prometheus.NewDesc("DCGM_FI_DEV_XID_ERRORS", "The last XID that the driver reported since berth started; 0: none.", dcgmLabels, nil)

func (d *dcgm) Describe(out chan<- *prometheus.Desc) {
	for _, m := range dcgmMetrics {
		out <- m.desc
	}
	out <- dcgmXID
}

// Collect collects nothing unless these names are enabled. It omits an instance of a
// device, which dcgm-exporter shows with labels that berth lacks.
func (d *dcgm) Collect(out chan<- prometheus.Metric) {
	if d.from.Compat == nil || d.from.Compat() != "dcgm" {
		return
	}
	watching := d.from.Watching()
	for _, r := range d.from.Readings() {
		if r.Device.Parent != "" {
			continue
		}
		r.Sampled = r.Sampled && watching && !r.Stale
		labels := d.labels(&r.Device)
		for _, m := range dcgmMetrics {
			if v, known := m.value(&r).Get(); known {
				out <- prometheus.MustNewConstMetric(m.desc, m.kind, v, labels...)
			}
		}
		if r.Device.Vendor == gpu.NVIDIA && r.Sampled && answers(&r) {
			out <- prometheus.MustNewConstMetric(dcgmXID, gauge, d.xids.last(r.Device.UUID), labels...)
		}
	}
}

func (d *dcgm) labels(on *gpu.Device) []string {
	index := strconv.Itoa(on.Index)
	file := strings.TrimPrefix(path.Base(on.Path), ".")
	if file == "" && on.Vendor == gpu.NVIDIA {
		file = "nvidia" + index
	}
	return []string{index, on.UUID, on.PCI, file, on.Name, d.from.Host, on.Driver}
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
