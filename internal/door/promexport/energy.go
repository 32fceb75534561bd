package promexport

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	energyDesc        = describe("gpu_energy_joules_total", "Energy used since berth first measured the device; restarts do not count.")
	idleEnergyDesc    = describe("gpu_idle_energy_joules_total", "How much of it the device draws by itself, also while it works.")
	serviceEnergyDesc = prometheus.NewDesc("berth_service_energy_joules_total", "Energy that leases of the service used since the daemon started, above what the devices draw by themselves.", []string{"service"}, nil)
)

// consumption is a collector of the energy that devices and services used. A device
// without measurements has no line.
type consumption struct {
	from  Sources
	named bool // includes services, which it names
}

func (c *consumption) Describe(out chan<- *prometheus.Desc) {
	out <- energyDesc
	out <- idleEnergyDesc
	if c.named {
		out <- serviceEnergyDesc
	}
}

func (c *consumption) Collect(out chan<- prometheus.Metric) {
	if c.from.Energy == nil {
		return
	}
	labels := map[string][]string{}
	for _, r := range c.from.Readings() {
		labels[r.Device.UUID] = []string{r.Device.UUID, strconv.Itoa(r.Device.Index), r.Device.Name}
	}
	meters := c.from.Energy()
	for _, d := range meters.Devices() {
		if of := labels[d.GPU]; of != nil {
			out <- prometheus.MustNewConstMetric(energyDesc, counter, float64(d.Total), of...)
			out <- prometheus.MustNewConstMetric(idleEnergyDesc, counter, float64(d.Idle), of...)
		}
	}
	if !c.named {
		return
	}
	services := meters.Services()
	services[""] += 0
	for _, name := range c.from.Labels.Services() {
		services[name] += 0
	}
	for label, used := range services {
		out <- prometheus.MustNewConstMetric(serviceEnergyDesc, counter, float64(used), label)
	}
}
