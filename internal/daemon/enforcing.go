package daemon

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/desk"
	"github.com/berth-gpu/berth/internal/desk/oversight"
	"github.com/berth-gpu/berth/internal/device/check"
	"github.com/berth-gpu/berth/internal/device/proof"
	"github.com/berth-gpu/berth/internal/enforce/watchdog"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/health/drains"
	"github.com/berth-gpu/berth/internal/lease/archive"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/peaks"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/cgroup"
	"github.com/berth-gpu/berth/internal/process/launch"
	"github.com/berth-gpu/berth/internal/process/mps"
)

// mpsLinger is how long an MPS daemon waits for the next lease. Starting one takes a
// second.
const mpsLinger = time.Minute

// openEnforcement opens the keepers that hold leases to their memory, that remember how
// much leases used and which have ended, and that remember which devices are in
// quarantine.
func (d *Daemon) openEnforcement(o Options, processes process.Table, publish func(gpu.Event)) *oversight.Standings {
	c := o.Settings.Config
	d.peaks, d.archive = peaks.New(), archive.New()
	remembered, drained := "", ""
	if !o.ReadOnly {
		remembered, drained = filepath.Join(c.Daemon.StateDir, healthName), filepath.Join(c.Daemon.StateDir, drainsName)
		var learned, ended *file.Damage
		d.peaks, learned = peaks.Open(filepath.Join(c.Daemon.StateDir, peaksName))
		d.archive, ended = archive.Open(filepath.Join(c.Daemon.StateDir, archiveName))
		d.tellDamage(learned, ended)
	}
	closed, unknown := drains.Open(drained)
	d.drains = closed
	standings, trusted := oversight.OpenStandings(remembered)
	d.tellDamage(unknown, trusted)
	d.mps = mps.New(mps.Options{
		Dir: filepath.Join(c.Daemon.StateDir, "mps"), Linger: mpsLinger, Processes: process.Proc(),
		Died:  func(uuid string, _ int) { publish(d.oversight.MPSDied(uuid, time.Now())) },
		Label: func(uuid string) string { return d.oversight.Label(uuid) },
	})
	d.groups = cgroup.New(tagOf(c.Daemon.StateDir))
	d.watchdog = watchdog.New(watchdog.Options{
		Settings: d.watching(c), Leases: oversight.Revoker{Ledger: d.ledger, Line: processes.Ancestry}, Processes: inCharge{processes, d.barred}, Event: publish,
		Record: func(e api.AuditEntry) { _ = d.record(e) }, // the log itself reports that it cannot be written
	})
	d.standings = standings
	return standings
}

// recallHeat passes to the monitor what was known before a restart about how the
// temperatures of devices follow their power.
func (d *Daemon) recallHeat(o Options) {
	if o.ReadOnly {
		return
	}
	known, damage := oversight.ReadModels(filepath.Join(o.Settings.Config.Daemon.StateDir, heatName))
	d.tellDamage(damage)
	d.monitor.RecallHeat(known)
}

// keepMPS passes to the MPS pool the leases from before a restart that MPS enforces, and
// opens the way to their pipes for other users.
func (d *Daemon) keepMPS(c config.Config) {
	for _, held := range d.ledger.View().Leases {
		if held.EnforcedBy == launch.MPS {
			d.mps.Keep(held.Parts[0].GPU, held.Holder.UID, held.Fence)
		}
	}
	d.passable(c)
}

// passable lets users pass through the state folder to the pipes of their MPS daemons.
// Everything else in it stays closed to them.
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

// watching translates the settings of the watchdog. If this daemon is not the first on
// its machine, its watchdog only reports.
func (d *Daemon) watching(c config.Config) watchdog.Settings {
	if d.monitor != nil && d.second() != "" {
		c.GPU.Foreign, c.GPU.Overheat, c.GPU.OverLimit = string(watchdog.Show), string(watchdog.Tell), string(watchdog.Warn)
		c.Services = nil
	}
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

// tagOf returns a text that distinguishes the control groups of this daemon from those of
// another, which has another state folder.
func tagOf(folder string) string {
	if whole, err := filepath.Abs(folder); err == nil {
		folder = whole
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(folder)) // never fails
	return fmt.Sprintf("%08x", sum.Sum32())
}

// stands reports whether the lease with this fence has not ended.
func (d *Daemon) stands(fence uint64) bool {
	return slices.ContainsFunc(d.ledger.View().Leases, func(held ledger.Held) bool { return held.Fence == fence })
}

// clearedBy returns who clears the memory of devices between two programs. It reads the
// file each time, which is small, so that a new file takes effect at once.
func (d *Daemon) clearedBy(devices []gpu.Device) string {
	path := filepath.Join(d.settings.load().Config.Daemon.StateDir, proof.ResidueFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return proof.NotChecked
	}
	var proofs proof.Proofs
	if err == nil {
		proofs, err = proof.ParseProofs(text)
	}
	if err != nil {
		d.log.Warn("it is not known whether memory is cleared between two programs, because the file about it cannot be read", "file", path, "error", err)
	}
	return proofs.ClearedBy(devices)
}

// drainOver returns the event for a drain that has ended by itself.
func (d *Daemon) drainOver(uuid string) gpu.Event {
	on := gpu.Device{UUID: uuid}
	if r, known := d.monitor.Find(uuid); known {
		on = r.Device
	}
	return desk.Undrained(on, time.Now(), gpu.By{})
}

// ownProcesses knows the processes that the daemon itself has on devices: MPS daemons,
// and the helper processes of checks. They need no lease.
type ownProcesses struct {
	*mps.Pool
	prover *check.Prover
	mover  *check.Mover
}

// Serves reports whether a process, given with its ancestors, is one of them.
func (o ownProcesses) Serves(line []process.ID) bool {
	return o.Pool.Serves(line) || o.prover.Serves(line) || o.mover.Serves(line)
}
