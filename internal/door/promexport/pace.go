package promexport

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-gpu/berth/gpu"
)

var (
	pacedDesc         = describe("berth_paced_leases", "Leases on the device whose processes berth stops and continues in turns.")
	pacedShareDesc    = describe("berth_paced_share_ratio", "The least share that a lease on the device is held to; 1: none is.")
	pacedMeasuredDesc = describe("berth_paced_measured_ratio", "What that lease gets of what it would get without pauses.")
)

// Paced is a lease that is held to a share.
type Paced struct {
	GPUs     []string         // UUIDs
	Share    float64          // from 0 to 1
	Measured gpu.Opt[float64] // the share it gets; absent if not known yet
}

// pacing is a collector over leases that are held to a share.
type pacing struct{ from Sources }

func (c *pacing) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{pacedDesc, pacedShareDesc, pacedMeasuredDesc} {
		out <- d
	}
}

func (c *pacing) Collect(out chan<- prometheus.Metric) {
	if c.from.Paced == nil {
		return
	}
	all := c.from.Paced()
	for _, r := range c.from.Readings() {
		count, least := 0, Paced{Share: 1}
		for _, p := range all {
			for _, uuid := range p.GPUs {
				if uuid != r.Device.UUID {
					continue
				}
				if count++; p.Share < least.Share {
					least = p
				}
			}
		}
		labels := []string{r.Device.UUID, strconv.Itoa(r.Device.Index), r.Device.Name}
		out <- prometheus.MustNewConstMetric(pacedDesc, gauge, float64(count), labels...)
		out <- prometheus.MustNewConstMetric(pacedShareDesc, gauge, least.Share, labels...)
		if measured, known := least.Measured.Get(); known {
			out <- prometheus.MustNewConstMetric(pacedMeasuredDesc, gauge, measured, labels...)
		}
	}
}
