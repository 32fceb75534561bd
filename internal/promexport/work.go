package promexport

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-gpu/berth/internal/progress"
)

var (
	throughputDesc = describe("gpu_throughput_ops_total", "Records that batches have done on the device.")
	latencyDesc    = describe("gpu_operation_latency_seconds", "How long the batch took that a record was in.")
)

// work is a collector over what the runners of batches report. A device that
// no batch has worked on has no line.
type work struct{ from Sources }

func (c *work) Describe(out chan<- *prometheus.Desc) {
	out <- throughputDesc
	out <- latencyDesc
}

func (c *work) Collect(out chan<- prometheus.Metric) {
	done := map[string]progress.Total{}
	for _, t := range c.from.Batches() {
		done[t.GPU] = t
	}
	for _, r := range c.from.Readings() {
		t, worked := done[r.Device.UUID]
		if !worked {
			continue
		}
		labels := []string{r.Device.UUID, strconv.Itoa(r.Device.Index), r.Device.Name}
		out <- prometheus.MustNewConstMetric(throughputDesc, counter, float64(t.Records), labels...)
		if t.Latency.Bounds == nil {
			continue
		}
		buckets := make(map[float64]uint64, len(t.Latency.Bounds))
		count := uint64(0)
		for i, n := range t.Latency.Counts {
			count += n
			if i < len(t.Latency.Bounds) {
				buckets[t.Latency.Bounds[i]] = count
			}
		}
		out <- prometheus.MustNewConstHistogram(latencyDesc, count, t.Latency.Sum, buckets, labels...)
	}
}
