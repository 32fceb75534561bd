package promexport

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-gpu/berth/api"
)

var (
	throughputDesc = describe("gpu_throughput_ops_total", "Work done on the device: records of batches, and operations that services report.", "service")
	latencyDesc    = describe("gpu_operation_latency_seconds", "How long an operation took; for a record, the batch that it was in.", "service")
)

// work is a collector over the reports of the runners of batches and services. A device
// without work has no line.
type work struct {
	from  Sources
	named bool // includes the work of services, which it names
}

func (c *work) Describe(out chan<- *prometheus.Desc) {
	out <- throughputDesc
	out <- latencyDesc
}

// Collect sends a line for each service and device. The records of batches belong to no
// service. Operations on an unknown device have empty device labels.
func (c *work) Collect(out chan<- prometheus.Metric) {
	known := map[string][]string{"": {"", "", ""}}
	for _, r := range c.from.Readings() {
		known[r.Device.UUID] = []string{r.Device.UUID, strconv.Itoa(r.Device.Index), r.Device.Name}
	}
	for _, t := range c.from.Batches() {
		if device := known[t.GPU]; device != nil {
			sendWork(out, t.Records, t.Latency, append(device[:3:3], "")...)
		}
	}
	if !c.named {
		return
	}
	for _, t := range c.from.Services() {
		device := known[t.GPU]
		if device == nil {
			device = []string{t.GPU, "", ""}
		}
		sendWork(out, t.Count, t.Latency, append(device[:3:3], t.Service)...)
	}
}

func sendWork(out chan<- prometheus.Metric, done uint64, l api.Latency, labels ...string) {
	out <- prometheus.MustNewConstMetric(throughputDesc, counter, float64(done), labels...)
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
	out <- prometheus.MustNewConstHistogram(latencyDesc, count, l.Sum, buckets, labels...)
}
