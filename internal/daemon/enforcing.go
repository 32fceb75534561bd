package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/desk"
	"github.com/berth-gpu/berth/internal/launch"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/ledger"
	"github.com/berth-gpu/berth/internal/monitor"
	"github.com/berth-gpu/berth/internal/mps"
	"github.com/berth-gpu/berth/internal/peaks"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/watchdog"
)

// mpsLinger is how long an MPS daemon waits for the next lease: starting one
// takes a second.
const mpsLinger = time.Minute

// openEnforcement makes what holds leases to their memory, and what remembers
// how much they used and which devices are not to be trusted.
func (d *Daemon) openEnforcement(o Options, publish func(gpu.Event)) error {
	c := o.Settings.Config
	d.peaks = peaks.New()
	remembered := ""
	if !o.ReadOnly {
		remembered = filepath.Join(c.Daemon.StateDir, healthName)
		kept, note, err := peaks.Open(filepath.Join(c.Daemon.StateDir, peaksName))
		if err != nil {
			return err
		}
		if d.peaks = kept; note != "" {
			o.Log.Warn(note)
		}
	}
	var err error
	if d.trust, err = openStandings(remembered); err != nil {
		return err
	}
	d.mps = mps.New(mps.Options{
		Dir: filepath.Join(c.Daemon.StateDir, "mps"), Linger: mpsLinger, Processes: process.Proc(),
		Died: func(uuid string, _ int) {
			publish(gpu.Event{
				Time: time.Now(), Code: gpu.EventDeviceFault, Severity: gpu.Serious, GPU: uuid,
				Text: "An MPS daemon on " + uuid + " has ended by itself; the programs under it fail. The next lease starts another one.",
			})
		},
	})
	d.watchdog = watchdog.New(watchdog.Options{
		Settings: watching(c), Book: book{d.ledger}, Processes: process.Proc(), Event: publish,
	})
	return nil
}

// book is the ledger as the watchdog takes it.
type book struct{ *ledger.Ledger }

// Revoke is content with a lease that has ended already.
func (b book) Revoke(ctx context.Context, id string, fence uint64, why string) error {
	err := b.Ledger.Revoke(ctx, id, fence, why)
	if errors.Is(err, lease.ErrUnknown) || errors.Is(err, lease.ErrStaleFence) {
		return nil
	}
	return err
}

// leaseEnded tells those who keep something for a lease.
func (d *Daemon) leaseEnded(l *lease.Lease, at time.Time) {
	d.peaks.Ended(l, at)
	d.batches.Ended(l, at)
	if l.EnforcedBy == launch.MPS {
		d.mps.Release(l.ID)
	}
}

// holds reports whether a user holds a lease on a device.
func (d *Daemon) holds(user, uuid string) bool {
	return slices.ContainsFunc(d.ledger.Holdings(uuid), func(h lease.Holding) bool { return h.Lease.Holder.User == user })
}

// keepMPS tells about the leases from before a restart that MPS enforces. Users
// other than ours must be able to reach their pipes.
func (d *Daemon) keepMPS(c config.Config) {
	for _, held := range d.ledger.View().Leases {
		if held.EnforcedBy == launch.MPS {
			d.mps.Keep(held.Parts[0].GPU, held.Holder.UID, held.ID)
		}
	}
	d.passable(c)
}

// passable lets users through the state folder to the pipes of their MPS
// daemons; what else is in it stays closed to them.
func (d *Daemon) passable(c config.Config) {
	if c.GPU.MPS != "on" || os.Geteuid() != 0 {
		return
	}
	if info, err := os.Stat(c.Daemon.StateDir); err == nil && info.Mode().Perm()&0o011 != 0o011 {
		if err := os.Chmod(c.Daemon.StateDir, info.Mode().Perm()|0o011); err != nil {
			d.log.Warn("users cannot reach their MPS daemons", "error", err)
		}
	}
}

// observe hands a reading to those who judge what is used.
func (d *Daemon) observe(r monitor.Reading) {
	d.ledger.Observe(observation(r))
	if !r.Sampled {
		return
	}
	uuid := r.Device.UUID
	var holdings []watchdog.Holding
	for _, h := range d.ledger.Holdings(uuid) {
		if h.Measured > 0 {
			d.peaks.Use(h.Lease, uuid, h.Measured, r.Sample.Time)
		}
		holdings = append(holdings, watchdog.Holding{
			Lease: h.Lease.ID, Fence: h.Lease.Fence, Service: h.Lease.Holder.Service, User: h.Lease.Holder.User, Leased: h.Part.Memory, Measured: h.Measured,
		})
	}
	var strangers []watchdog.Stranger
	for _, p := range d.ledger.Processes(uuid) {
		// A process that draws on a screen has no use for a lease.
		if p.Lease != nil || p.Kind == gpu.Graphics || d.mps.Serves(p.Line) {
			continue
		}
		strangers = append(strangers, watchdog.Stranger{
			ID: p.Line[0], Name: p.Name, User: d.userOf(p.Line[0].PID), Memory: p.Memory, Ended: p.Ended,
		})
	}
	d.watchdog.Look(uuid, r.Sample.Time, holdings, strangers)
	d.watchdog.Stop(uuid, r.Sample.Time, halt(r), holdings)
}

// halt is why a device must not be used; nil if it may.
func halt(r monitor.Reading) *watchdog.Halt {
	if !r.Stop {
		return nil
	}
	return &watchdog.Halt{Reason: r.Reason, Heat: r.Hot}
}

// userOf returns the user of a process; empty if it has gone. It never waits for
// the user database: a device would not be sampled meanwhile.
func (d *Daemon) userOf(pid int) string {
	uid, err := process.Proc().UID(pid)
	if err != nil {
		return ""
	}
	return d.users.Now(uid)
}

// watching translates the settings that the watchdog goes by.
func watching(c config.Config) watchdog.Settings {
	return watchdog.Settings{
		Foreign: watchdog.ForeignPolicy(c.GPU.Foreign), Heat: watchdog.HeatPolicy(c.GPU.Overheat), Grace: c.Optimization.DeallocationTimeout,
		OverLimit: func(service string) watchdog.Policy {
			if own := c.Services[service].OverLimit; own != "" {
				return watchdog.Policy(own)
			}
			return watchdog.Policy(c.GPU.OverLimit)
		},
	}
}

// enforcement is what the desk needs to know about it.
func (d *Daemon) enforcement() desk.Enforcement {
	c := d.settings.load().Config.GPU
	return desk.Enforcement{Context: c.Context, MPS: c.MPS == "on"}
}
