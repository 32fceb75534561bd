package daemon

import (
	"context"
	"slices"
	"time"

	"github.com/berth-gpu/berth/internal/batch/runs"
	"github.com/berth-gpu/berth/internal/enforce/idle"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/inventory"
	"github.com/berth-gpu/berth/internal/history/energy"
	"github.com/berth-gpu/berth/internal/history/hours"
	"github.com/berth-gpu/berth/internal/history/throughput"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/archive"
	"github.com/berth-gpu/berth/internal/lease/peaks"
)

// usage is what leases use.
type usage struct {
	operations *throughput.Counter // work that services report
	peaks      *peaks.Peaks
	archive    *archive.Archive // opened before the journal, which it follows
	energy     *energy.Meters
	hours      *hours.Hours // likewise
	added      addedUp
	idle       *idle.Idlers
	batches    *runs.Runs
}

// openUsage opens the records of what leases use: the work that they do, the memory and
// the energy that they take, and the time that they are idle.
func (d *Daemon) openUsage(o Options) error {
	d.operations, d.peaks = throughput.New(d.labels.Service), peaks.New()
	metered := energy.Options{
		Interval: func() time.Duration { return d.settings.load().Config.GPU.MonitorInterval }, Busy: d.monitor.Busy, Label: d.labels.Service, User: d.labels.User,
	}
	d.energy = energy.New(metered)
	d.idle = idle.New(idle.Options{
		Busy: d.monitor.Busy, Publish: d.publish,
		After: func() time.Duration { return d.settings.load().Config.Optimization.ParkIdleAfter },
	})
	d.batches = runs.New(d.publish, d.known, d.holds)
	if o.ReadOnly {
		return nil
	}
	var learned, metering *file.Damage
	d.peaks, learned = peaks.Open(o.state(inventory.Peaks))
	d.energy, metering = energy.Open(o.state(inventory.Energy), metered)
	d.tellDamage(learned, metering)
	var standing []*lease.Lease
	for _, held := range d.ledger.View().Leases {
		standing = append(standing, held.Lease)
	}
	d.energy.Recall(standing)
	d.peaks.Recall(standing)
	d.peaks.Stands = func(l *lease.Lease) bool { return d.ledger.Lease(l.Key(), l.Fence) != nil }
	d.run("peaks", func(ctx context.Context) { _ = d.peaks.Run(ctx) })       // a failure costs only a guess
	d.run("archive", func(ctx context.Context) { _ = d.archive.Run(ctx) })   // a failure costs only the archive
	d.runLast("energy", func(ctx context.Context) { _ = d.energy.Run(ctx) }) // after a failure, sums begin anew
	d.run("idle", d.idle.Run)
	return nil
}

// openArchive opens the leases that have ended. It has to come before the journal, which
// tells what ended since the file was written.
func (d *Daemon) openArchive(o Options) {
	if d.archive = archive.New(); o.ReadOnly {
		return
	}
	var ended *file.Damage
	d.archive, ended = archive.Open(o.state(inventory.PastLeases))
	d.tellDamage(ended)
}

// known reports whether there is a device with this UUID.
func (d *Daemon) known(uuid string) bool {
	r, known := d.monitor.Find(uuid)
	return known && r.Device.UUID == uuid
}

// holds reports whether a user holds a lease on a device.
func (d *Daemon) holds(owner lease.Owner, uuid string) bool {
	return slices.ContainsFunc(d.ledger.Holdings(uuid), func(h lease.Holding) bool { return h.Lease.Holder.Owner() == owner })
}
