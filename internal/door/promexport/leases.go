package promexport

var (
	slotsMetric     = deviceMetric(gauge, "gpu_slots", "Pipelines the device runs and may run.", "kind")
	leasedMetric    = deviceMetric(gauge, "gpu_memory_leased_mb", "Memory under leases, in MiB: for each the larger of leased and measured.")
	foreignMetric   = deviceMetric(gauge, "gpu_memory_foreign_mb", "Memory used under no lease, in MiB.")
	availableMetric = deviceMetric(gauge, "gpu_memory_available_mb", "Memory that can be leased now, in MiB.")
)

// leased shows what is leased on each device.
var leased = group{[]*family{slotsMetric, leasedMetric, foreignMetric, availableMetric}, func(now *Values, out lines) {
	for _, sum := range now.Ledger.Sums() {
		labels := labelsOf(&sum.Device)
		out.put(slotsMetric, float64(sum.Active), append(labels[:3:3], "active")...)
		out.put(slotsMetric, float64(sum.MaxPipelines), append(labels[:3:3], "capacity")...)
		out.put(leasedMetric, float64(sum.Leased+sum.Overuse), labels...)
		out.put(foreignMetric, float64(sum.Foreign), labels...)
		available := max(sum.Available(), 0)
		if sum.Closed != "" {
			available = 0
		}
		out.put(availableMetric, float64(available), labels...)
	}
}}
