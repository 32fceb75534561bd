package daemon

import (
	"fmt"
	"os"

	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/enforce/park/hugepages"
	"github.com/berth-gpu/berth/internal/enforce/park/mover"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/lease"
)

// openParking opens the parker. A daemon that only looks parks nothing.
func (d *Daemon) openParking(o Options) error {
	if o.ReadOnly {
		return nil
	}
	faults, err := move.ParseFaults(os.Getenv(move.FaultVariable))
	if err != nil {
		return fmt.Errorf("environment %s: %w", move.FaultVariable, err)
	}
	if len(faults) > 0 {
		d.log.Warn("parking goes wrong on purpose, as the environment says", "variable", move.FaultVariable)
	}
	boot, err := d.processes.Boot()
	if err != nil {
		return err
	}
	d.own.mover.Faults = faults
	pages, lost := hugepages.Open(hugepages.Path, o.state(hugepages.FileName), boot, o.Log)
	d.tellDamage(lost)
	var damage *file.Damage
	d.parking, damage = mover.New(mover.Options{
		Leases: d.ledger, Open: d.own.mover.Open, Monitor: d.monitor, Pacer: d.pacer, Closures: d.drains, Machine: mover.Machine{Processes: d.processes}, Pages: pages, Processes: d.processes,
		Settings: &o.Settings.Config, Idle: d.idle.Of, Denied: d.denied, Publish: d.publish, Log: o.Log,
		Path: o.state(mover.FileName), Boot: boot,
	})
	d.tellDamage(damage)
	d.run("parking", d.parking.Run)
	return nil
}

// leaseEvent publishes an event about a lease, after which a lease may have to be parked.
func (d *Daemon) leaseEvent(n lease.Notice) {
	d.publishLate(d.oversight.Bill(n))
	if d.parking != nil {
		d.parking.Nudge()
	}
}

// leaseChanged tells the keepers that a lease has changed.
func (d *Daemon) leaseChanged(e *lease.Effect) {
	d.jobsOverran(e) // before the watchdog ends its programs
	d.oversight.Changed(e)
	d.hours.Changed(e)
	d.watchdog.Changed(e)
	if d.parking != nil {
		d.parking.Changed(e)
	}
	if d.jobs != nil && e.Ends() {
		d.jobs.Runs().LeaseEnded(e.Before.Fence, e.Why)
	}
	switch {
	case d.services == nil:
	case e.Ends():
		d.services.Runs().LeaseEnded(e.Lease().Fence, e.Why)
	case e.Kind == lease.WasParked, e.Kind == lease.Resumed:
		d.services.LeaseMoved(e.Lease().Fence)
	}
}
