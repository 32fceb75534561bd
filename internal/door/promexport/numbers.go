package promexport

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// number is a metric with one line.
type number struct {
	*family
	value func(*Values) float64
}

// numbers lists the metrics with one line.
var numbers = []number{
	{metric(gauge, "berth_leases", "Leases that stand."), func(now *Values) float64 { standing, _ := now.Ledger.Len(); return float64(standing) }},
	{metric(gauge, "berth_queue_length", "Requests that wait."), func(now *Values) float64 { _, waiting := now.Ledger.Len(); return float64(waiting) }},
	{metric(gauge, "berth_journal_records", "Records in the journal since it was last made shorter."), func(now *Values) float64 { return float64(now.Ledger.Journal().LogEntries) }},
	{metric(gauge, "berth_journal_bytes", "Size of the journal's files."), func(now *Values) float64 { return float64(now.Ledger.Journal().DiskBytes) }},
	{metric(gauge, "berth_journal_trouble", "1 while the journal cannot be written, and no new lease is granted."), func(now *Values) float64 { return truth(now.Ledger.Trouble() != nil) }},
	{metric(counter, "berth_journal_syncs_total", "How often the disk was waited for."), func(now *Values) float64 { return float64(now.Ledger.Journal().Syncs) }},

	{metric(gauge, "berth_parked_leases", "Leases whose memory is in the memory of the machine."), func(now *Values) float64 { return float64(now.Parking.Parked) }},
	{metric(gauge, "berth_parked_host_bytes", "Memory of the machine that parked leases take, and those on their way."), func(now *Values) float64 { return bytes(now.Parking.Host) }},
	{metric(counter, "berth_park_turns_total", "Leases that were parked because others waited for their device."), func(now *Values) float64 { return float64(now.Parking.Turns) }},
	{metric(gauge, "berth_idle_leases", "Leases that berth may park and that have not used their devices for park_idle_after."), func(now *Values) float64 { return float64(now.Idle) }},
	{metric(counter, "berth_optimizations_total", "Optimizations that were more than a dry run."), func(now *Values) float64 { return float64(now.Optimized.Runs) }},

	{metric(gauge, "berth_past_bytes", "Space that the past takes on disk."), func(now *Values) float64 { return float64(now.Past.Bytes) }},
	{metric(gauge, "berth_past_series", "Series of the past that are in memory."), func(now *Values) float64 { return float64(now.Past.Series) }},
	{metric(counter, "berth_past_samples_total", "Samples that were stored."), func(now *Values) float64 { return float64(now.Past.Samples) }},
	{metric(counter, "berth_past_dropped_total", "Samples that were not stored: the disk was full, failed or too slow, or the clock went back."), func(now *Values) float64 { return float64(now.Past.Dropped) }},

	{metric(counter, "berth_audit_entries_total", "Entries that were written to the audit log."), func(now *Values) float64 { return float64(now.Audited) }},
	{metric(counter, "berth_audit_write_failures_total", "Entries that could not be written to the audit log, so that the act was refused, and failed syncs of it."), func(now *Values) float64 { return float64(now.Unaudited) }},
	{metric(gauge, "berth_monitoring", "1 while devices are sampled; 0: nothing is measured, and no measurement shown."), func(now *Values) float64 { return truth(now.Watching) }},
	{metric(counter, "berth_log_dropped_total", "Lines that were dropped because the log did not take them in time."), func(now *Values) float64 { return float64(now.Unlogged) }},
	{metric(gauge, "berth_tls_expiry_timestamp_seconds", "When the certificate of the daemon ends; 0: it has none."), expiry},
}

func expiry(now *Values) float64 {
	if now.Expires.IsZero() {
		return 0
	}
	return float64(now.Expires.Unix())
}

func bytes(m gpu.MiB) float64 { return float64(m) * (1 << 20) }

// seconds returns a time in the form of Prometheus.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// single returns the group of all metrics with one line.
func single() group {
	var all []*family
	for _, n := range numbers {
		all = append(all, n.family)
	}
	return group{all, func(now *Values, out lines) {
		for _, n := range numbers {
			out.put(n.family, n.value(now))
		}
	}}
}
