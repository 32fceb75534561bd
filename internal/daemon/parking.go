package daemon

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/desk"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/enforce/park"
	"github.com/berth-gpu/berth/internal/enforce/park/mover"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

// openParking opens the parker. A daemon that only looks parks nothing.
func (d *Daemon) openParking(o Options, processes process.Table) error {
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
	boot, err := processes.Boot()
	if err != nil {
		return err
	}
	d.mover.Devices, d.mover.Faults = d.monitor, faults
	parked, damage := mover.New(mover.Options{
		Leases: d.ledger, Open: d.mover.Open, Monitor: d.monitor, Pacer: d.pacer, Closures: d.drains, Machine: mover.Machine{Processes: processes}, Processes: processes,
		Settings: parkingRules(o.Settings.Config), Idle: d.idleSince, Denied: d.denied, Publish: d.publish, Log: o.Log,
		Path: filepath.Join(o.Settings.Config.Daemon.StateDir, mover.FileName), Boot: boot,
	})
	d.parking = parked
	d.tellDamage(damage)
	return nil
}

// parkingRules returns the settings of the parker.
func parkingRules(all config.Config) mover.Settings {
	c := all.Optimization
	return mover.Settings{Host: c.ParkHost, Rules: park.Rules{IdleAfter: c.ParkIdleAfter, Grace: c.ParkGrace, Keep: c.Keep, Slice: c.TimeSlice}}
}

// nudgeParking makes the parker check whether a lease has to be parked.
func (d *Daemon) nudgeParking() {
	if d.parking != nil {
		d.parking.Nudge()
	}
}

// leaseEnded tells the keepers that a lease has ended.
func (d *Daemon) leaseEnded(e *lease.Effect) {
	d.oversight.LeaseEnded(e)
	if d.parking != nil {
		d.parking.Changed(e.Before.Fence)
	}
}

// parker returns the parker for the desk, or nil if there is none.
func (d *Daemon) parker() desk.Parking {
	if d.parking == nil {
		return nil
	}
	return d.parking
}
