package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/enforce/pace"
	"github.com/berth-gpu/berth/internal/enforce/slowdown"
	"github.com/berth-gpu/berth/internal/enforce/throttle"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/health/thermal"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/devicelock"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// openThrottle opens the throttle, which acts on devices that should run slower. In a
// daemon that only looks it acts on none.
func (d *Daemon) openThrottle(o Options) error {
	var damage *file.Damage
	d.throttle, damage = throttle.Open(throttle.Options{
		Settings: throttling(o.Settings.Config), Devices: d.monitor, Leases: d.ledger, Event: d.publish, Count: d.exporter.Step,
		Pacer: throttlePacer{d.pacer}, Denied: d.denied, Settles: d.settles, File: o.state(throttleName),
		Complain: func(err error) { d.log.Warn(err.Error()) },
	})
	d.tellDamage(damage)
	d.run("throttle", d.throttle.Run)
	return nil
}

// settles returns where the temperature of a device settles at a power, if its model has
// learned enough.
func (d *Daemon) settles(uuid string, at gpu.Watts) (gpu.Celsius, bool) {
	m, known := d.monitor.Model(uuid)
	if !known || !m.Ready() {
		return 0, false
	}
	return m.Settle(at).Mean, true
}

// throttlePacer adapts the pacer to the throttle.
type throttlePacer struct{ pacer *pace.Pacer }

// Hold holds a lease to a share because of a device.
func (p throttlePacer) Hold(fence uint64, key lease.Key, uuid string, share float64, why string) error {
	return p.pacer.Hold(pace.Hold{Key: key, Fence: fence, Share: share, Source: pace.ByThrottle, Why: why, GPU: uuid})
}

// Let ends the hold of the throttle on a lease. Others may still hold it.
func (p throttlePacer) Let(fence uint64) { p.pacer.Let(fence, gpu.By{}, pace.ByThrottle) }

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

// throttling translates the settings of the throttle.
func throttling(c config.Config) throttle.Settings {
	s := throttle.Settings{
		Device: func(uuid string) throttle.Device {
			d := c.GPU.For(uuid)
			curve, _ := config.ParseCurve(d.FanCurve) // empty, or checked when it was set
			return throttle.Device{
				Policy: slowdown.Policy(d.Throttle), Least: d.PowerLeast, Curve: curve,
				Rules: thermal.Rules{Thresholds: d.Thresholds, Cooldown: d.ThrottleCooldown, CriticalPause: d.CriticalPause},
			}
		},
		Service: func(name string) slowdown.Policy { return slowdown.Policy(c.Services[name].Throttle) },
	}
	for _, service := range c.Services {
		s.Paces = s.Paces || slowdown.Policy(service.Throttle).Does(slowdown.Pace)
	}
	return s
}

// policy returns how a device is throttled.
func (d *Daemon) policy(uuid string) slowdown.Policy {
	return slowdown.Policy(d.settings.load().Config.GPU.For(uuid).Throttle)
}
