package daemon

import (
	"context"
	"errors"
	"slices"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/desk"
	"github.com/berth-gpu/berth/internal/enforce/reclaim"
	"github.com/berth-gpu/berth/internal/enforce/watchdog"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// openReclaim opens the keeper that gets memory back. A daemon that only looks gets none
// back.
func (d *Daemon) openReclaim(o Options) error {
	if o.ReadOnly {
		return nil
	}
	d.reclaim = reclaim.New(reclaim.Options{
		Leases: d.ledger, Monitor: d.monitor, Processes: d.processes, Peaks: d.peaks, Parker: d.parking, Idle: d.idle.Of, Publish: d.publish, Log: o.Log, Faults: d.faults, Settings: &o.Settings.Config, Program: d.programOf,
		Orphans: orphanage{d, desk.New(desk.Parts{Monitor: d.monitor, Ledger: d.ledger, Processes: d.processes, Users: d.users, MPS: d.own}).Strays},
	})
	d.run("reclaim", d.reclaim.Run)
	return nil
}

// orphanage finds the processes of ended leases for an optimization.
type orphanage struct {
	*Daemon
	strays *desk.Strays
}

// List returns the processes that use devices although their leases have ended.
func (o orphanage) List() (list []reclaim.Orphan) {
	for _, stray := range o.strays.Orphans().Orphans {
		r, known := o.monitor.Find(stray.GPU)
		id, found := o.identify(stray, r.Device.Path)
		if !found || !known {
			continue // it has ended, has got a lease, or has closed the device
		}
		orphan := reclaim.Orphan{
			On: r.Device, UID: lease.NoUID,
			Stranger: watchdog.Stranger{ID: id, Name: stray.Name, User: stray.User, Memory: stray.Memory.Or(0), Ended: stray.Lease},
		}
		if uid, err := o.processes.UID(id.PID); err == nil && o.processes.Alive(id) { // in this order, so that uid belongs to this process
			orphan.UID = uid
		}
		list = append(list, orphan)
	}
	return list
}

// identify returns the full identity of a stray, of which only the pid is known. One that no
// device lists must have the file of its device open now: the list may be old.
func (o orphanage) identify(stray api.Stray, path string) (process.ID, bool) {
	for _, p := range o.ledger.Processes(stray.GPU) {
		if p.Line[0].PID == stray.PID && p.Lease == nil && p.Ended == stray.Lease {
			return p.Line[0], true
		}
	}
	ended, line := o.ledger.Orphan(stray.PID)
	if ended == "" || ended != stray.Lease || !slices.Contains(slices.Collect(o.processes.OpenFiles(stray.PID)), path) {
		return process.ID{}, false
	}
	return line[0], true
}

// End ends an orphan under a mandate. It spares a process that has a lease on any device.
func (o orphanage) End(ctx context.Context, orphan reclaim.Orphan, in kinship.Mandate) error {
	if err := o.barred(); err != nil {
		return err
	}
	for _, r := range o.monitor.Readings() {
		if o.ledger.Leased(r.Device.UUID, orphan.ID) {
			return errors.New("it runs under a lease on " + r.Device.Label())
		}
	}
	return o.watchdog.EndOrphan(ctx, orphan.On, orphan.Stranger, in, "optimization.orphans is end")
}
