package promexport

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	slotsDesc     = describe("gpu_slots", "Pipelines the device runs and may run.", "kind")
	leasedDesc    = describe("gpu_memory_leased_mb", "Memory under leases, in MiB: for each the larger of leased and measured.")
	foreignDesc   = describe("gpu_memory_foreign_mb", "Memory used under no lease, in MiB.")
	availableDesc = describe("gpu_memory_available_mb", "Memory that can be leased now, in MiB.")

	leasesDesc  = prometheus.NewDesc("berth_leases", "Leases that stand.", nil, nil)
	waitingDesc = prometheus.NewDesc("berth_queue_length", "Requests that wait.", nil, nil)
	recordsDesc = prometheus.NewDesc("berth_journal_records", "Records in the journal since it was last made shorter.", nil, nil)
	bytesDesc   = prometheus.NewDesc("berth_journal_bytes", "Size of the journal's files.", nil, nil)
	troubleDesc = prometheus.NewDesc("berth_journal_trouble", "1 while the journal cannot be written, and no new lease is granted.", nil, nil)
	syncsDesc   = prometheus.NewDesc("berth_journal_syncs_total", "How often the disk was waited for.", nil, nil)
)

// leases is a collector over the ledger.
type leases struct{ from Sources }

func (c *leases) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		slotsDesc, leasedDesc, foreignDesc, availableDesc, leasesDesc, waitingDesc, recordsDesc, bytesDesc, troubleDesc, syncsDesc,
	} {
		out <- d
	}
}

func (c *leases) Collect(out chan<- prometheus.Metric) {
	send := func(desc *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, kind, v, labels...)
	}
	book := c.from.Ledger()
	for uuid, sum := range book.Sums() {
		index, name := strconv.Itoa(sum.Device.Index), sum.Device.Name
		send(slotsDesc, gauge, float64(sum.Active), uuid, index, name, "active")
		send(slotsDesc, gauge, float64(sum.MaxPipelines), uuid, index, name, "capacity")
		send(leasedDesc, gauge, float64(sum.Leased+sum.Overuse), uuid, index, name)
		send(foreignDesc, gauge, float64(sum.Foreign), uuid, index, name)
		available := max(sum.Available(), 0)
		if sum.Closed != "" {
			available = 0
		}
		send(availableDesc, gauge, float64(available), uuid, index, name)
	}
	standing, waiting := book.Len()
	send(leasesDesc, gauge, float64(standing))
	send(waitingDesc, gauge, float64(waiting))
	stats := book.Journal()
	send(recordsDesc, gauge, float64(stats.LogRecords))
	send(bytesDesc, gauge, float64(stats.DiskBytes))
	send(troubleDesc, gauge, truth(book.Trouble() != nil))
	send(syncsDesc, counter, float64(stats.Syncs))
}
