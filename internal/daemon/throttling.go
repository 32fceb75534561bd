package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/enforce/throttle"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/inventory"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/devicelock"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// openThrottle opens the throttle, which acts on devices that should run slower. In a
// daemon that only looks it acts on none.
func (d *Daemon) openThrottle(o Options) error {
	var damage *file.Damage
	d.throttle, damage = throttle.Open(throttle.Options{
		Settings: &o.Settings.Config, Devices: d.monitor, Leases: d.ledger, Event: d.publish, Count: d.exporter.Step,
		Pacer: d.pacer, Denied: d.denied, Steered: d.monitor.Steered, File: o.state(inventory.Throttle),
		Complain: func(err error) { d.log.Warn(err.Error()) },
	})
	d.tellDamage(damage)
	d.run("throttle", d.throttle.Run)
	return nil
}

// charge knows whether this daemon is in charge of devices, or another one.
type charge struct {
	log      *slog.Logger
	monitor  *monitor.Monitor
	locks    *devicelock.Locks // nil if the daemon only looks
	unlocked sync.Once         // logs once that no device can be locked
}

// denied returns why another daemon is in charge of a device, or "" if this one is. A
// simulated device is in one process only, unless processes share it.
func (c *charge) denied(uuid string) string {
	if c.locks == nil {
		return ""
	}
	if r, known := c.monitor.Find(uuid); known && r.Device.Vendor == gpu.Simulated && os.Getenv("BERTH_SIM_GUESTS") == "" {
		return ""
	}
	why := c.locks.Denied(uuid)
	if err := c.locks.Trouble(); err != nil {
		c.unlocked.Do(func() { c.log.Warn("another daemon on this machine would not notice this one: " + err.Error()) })
	}
	return why
}

// second returns why this daemon is not in charge of all its devices, or "" if it is.
func (c *charge) second() string {
	for _, r := range c.monitor.Readings() {
		if why := c.denied(r.Device.UUID); why != "" {
			return fmt.Sprintf("This daemon is not the first on this machine (%s: %s), so it leases, and never paces, ends processes or sets power limits.", r.Device.Label(), why)
		}
	}
	return ""
}

// barred returns why this daemon must not stop processes, or nil if it may.
func (c *charge) barred() error {
	if why := c.second(); why != "" {
		return errors.New(why)
	}
	return nil
}

// inCharge is the process table for the watchdog. It sends no signals if this daemon is
// the second on its machine.
type inCharge struct {
	process.Table
	*charge
}

// Signal signals a process if this daemon is the first on the machine.
func (i inCharge) Signal(in kinship.Mandate, id process.ID, signal process.Signal) error {
	if err := i.barred(); err != nil && signal != process.Probe {
		return err
	}
	return i.Table.Signal(in, id, signal)
}
