package daemon

import (
	"github.com/berth-gpu/berth/internal/door/promexport"
)

// shownDevices returns the last measurements, for the metrics.
func (d *Daemon) shownDevices() promexport.Devices {
	now := promexport.Devices{Readings: d.monitor.Readings(), Watching: d.monitor.Running()}
	for i := range now.Readings {
		on := now.Readings[i].Device
		if _, drained := d.drains.Drained(on); drained {
			if now.Drained == nil {
				now.Drained = map[string]bool{}
			}
			now.Drained[on.UUID] = true
		}
	}
	return now
}

// shownValues returns everything that the metrics show now. Unlogged counts the lines that
// the log dropped; it is nil if it drops none.
func (d *Daemon) shownValues(unlogged func() uint64) promexport.Values {
	now := promexport.Values{
		Devices: d.shownDevices(), Compat: d.settings.load().Config.Metrics.Compat, Ledger: d.ledger, Limits: d.limits.Load(),
		Batches: d.batches.Totals(), Services: d.operations.Totals(), Energy: d.energy, Hours: d.hours, Paced: d.paced(),
		Idle: d.idle.Count(), Past: d.past.Cost(), Evaluated: d.evaluated(), Expires: d.shown.expires(),
	}
	if d.reclaim != nil {
		now.Optimized, now.Parking = d.reclaim.Counts(), d.parking.Counts()
	}
	if d.jobs != nil {
		usage := d.jobs.Usage()
		now.Jobs = &usage
	}
	if d.services != nil {
		now.Programs = &promexport.Programs{Services: d.services.List(), Counted: d.services.Counts()}
	}
	if unlogged != nil {
		now.Unlogged = unlogged()
	}
	now.Audited, now.Unaudited = d.audit.Counts()
	return now
}
