package promexport

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-gpu/berth/api"
)

var (
	throughputMetric    = deviceMetric(counter, "gpu_throughput_ops_total", "Work done on the device: records of batches, and operations that services report.", "service")
	latencyMetric       = deviceMetric(prometheus.UntypedValue, "gpu_operation_latency_seconds", "How long an operation took; for a record, the batch that it was in.", "service")
	energyMetric        = deviceMetric(counter, "gpu_energy_joules_total", "Energy used since berth first measured the device; restarts do not count.")
	idleEnergyMetric    = deviceMetric(counter, "gpu_idle_energy_joules_total", "How much of it the device draws by itself, also while it works.")
	serviceEnergyMetric = metric(counter, "berth_service_energy_joules_total", "Energy that leases of the service used since berth began to count, above what the devices draw by themselves; restarts do not count.", "service")
)

// work returns the group of what runners of batches and services report, and of the energy
// that devices and services used. Names is nil for a page without services. A device
// without work or measurements has no line.
func work(names *Names) group {
	all := []*family{throughputMetric, latencyMetric, energyMetric, idleEnergyMetric}
	if names != nil {
		all = append(all, serviceEnergyMetric)
	}
	return group{all, func(now *Values, out lines) {
		known := map[string][]string{}
		for i := range now.Readings {
			known[now.Readings[i].Device.UUID] = labelsOf(&now.Readings[i].Device)
		}
		for _, t := range now.Batches { // they belong to no service
			if device := known[t.GPU]; device != nil {
				putWork(out, t.Records, t.Latency, append(device[:3:3], "")...)
			}
		}
		if now.Energy != nil {
			for _, d := range now.Energy.Devices() {
				if device := known[d.GPU]; device != nil {
					out.put(energyMetric, float64(d.Total), device...)
					out.put(idleEnergyMetric, float64(d.Idle), device...)
				}
			}
		}
		if names != nil {
			now.putServices(names, known, out)
		}
	}}
}

// putServices adds the work and the energy of each service. Operations on an unknown
// device have empty device labels.
func (now *Values) putServices(names *Names, known map[string][]string, out lines) {
	for _, t := range now.Services {
		device := known[t.GPU]
		if device == nil {
			device = []string{t.GPU, "", ""}
		}
		putWork(out, t.Count, t.Latency, append(device[:3:3], t.Service)...)
	}
	if now.Energy == nil {
		return
	}
	services := now.Energy.Services()
	for _, name := range append(names.Services(), "") {
		if _, there := services[name]; !there {
			services[name] = now.Energy.ServiceBefore(name)
		}
	}
	for label, used := range services {
		out.put(serviceEnergyMetric, float64(used), label)
	}
}

func putWork(out lines, done uint64, l api.Latency, labels ...string) {
	out.put(throughputMetric, float64(done), labels...)
	if l.Bounds == nil {
		return
	}
	buckets := make(map[float64]uint64, len(l.Bounds))
	count := uint64(0)
	for i, n := range l.Counts {
		count += n
		if i < len(l.Bounds) {
			buckets[l.Bounds[i]] = count
		}
	}
	out <- prometheus.MustNewConstHistogram(latencyMetric.desc, count, l.Sum, buckets, labels...)
}
