package daemon

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/desk"
	"github.com/berth-gpu/berth/internal/desk/oversight"
	"github.com/berth-gpu/berth/internal/device/check"
	"github.com/berth-gpu/berth/internal/device/proof"
	"github.com/berth-gpu/berth/internal/enforce/checkup"
	"github.com/berth-gpu/berth/internal/enforce/park/mover"
	"github.com/berth-gpu/berth/internal/enforce/watchdog"
	"github.com/berth-gpu/berth/internal/file/inventory"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/cgroup/enclosure"
	"github.com/berth-gpu/berth/internal/process/devicelock"
	"github.com/berth-gpu/berth/internal/process/launch"
	"github.com/berth-gpu/berth/internal/process/mps"
)

// mpsLinger is how long an MPS daemon waits for the next lease. Starting one takes a
// second.
const mpsLinger = time.Minute

// openEnforcement opens the keepers that hold leases to their memory and to their
// devices.
func (d *Daemon) openEnforcement(o Options) error {
	c := o.Settings.Config
	d.charge = &charge{log: o.Log, monitor: d.monitor}
	if !o.ReadOnly {
		own := os.Getenv("BERTH_SIM_GUESTS") // the folder through which daemons share simulated devices
		if own != "" {
			own += ".daemons"
		}
		d.locks = devicelock.New(devicelock.Options{Own: own, Processes: process.Proc()})
	}
	d.groups = enclosure.New(tagOf(c.Daemon.StateDir))
	d.own = ownProcesses{prover: &check.Prover{Devices: d.monitor}, mover: &check.Mover{Devices: d.monitor}, Pool: mps.New(mps.Options{
		Dir: filepath.Join(absolute(c.Daemon.StateDir), inventory.MPS), Linger: mpsLinger, Processes: process.Proc(), Label: d.label,
		Died: func(uuid string) { d.publish(oversight.MPSDied(d.label(uuid), uuid, time.Now())) },
	})}
	d.watchdog = watchdog.New(watchdog.Options{
		Settings: d.watching(c), Leases: d.ledger, Processes: inCharge{d.processes, d.charge}, Event: d.publish,
		Minds: func(id process.ID) bool {
			return slices.ContainsFunc(d.runs, func(m Minders) bool { return m.Minds(id) })
		},
		Astray: func(fence uint64) (gpu.MiB, bool) {
			if d.parking == nil {
				return 0, false
			}
			return d.parking.Astray(fence)
		},
		Record: func(e api.AuditEntry) { _ = d.audit.Record(e) }, // the log itself reports that it cannot be written
		Faults: d.faults,
	})
	d.checkup = checkup.New(checkup.Options{Prover: d.own.prover, Monitor: d.monitor, Leases: d.ledger, Closures: d.drains, Publish: d.publish})
	d.run("checks", d.checkup.Run)
	d.run("watchdog", d.watchdog.Run)
	d.run("mps", d.own.Run)
	d.run("claims", func(ctx context.Context) {
		d.locks.Run(ctx, d.watchAgain)
	})
	d.run("groups", func(ctx context.Context) { d.groups.Run(ctx, d.stands) })
	return nil
}

// watchAgain configures the watchdog anew, after what is not in the settings has changed.
// The settings do not change meanwhile: older ones would come back into force.
func (d *Daemon) watchAgain() {
	d.settings.changing.Lock()
	defer d.settings.changing.Unlock()
	d.watchdog.Configure(d.watching(d.settings.load().Config))
}

// label returns the name of a device for people, or its UUID if the device is not known.
func (d *Daemon) label(uuid string) string {
	if r, known := d.monitor.Find(uuid); known {
		return r.Device.Label()
	}
	return uuid
}

// keepMPS passes to the MPS pool the leases from before a restart that MPS enforces, and
// opens the way to their pipes for other users.
func (d *Daemon) keepMPS(c config.Config) {
	for _, held := range d.ledger.View().Leases {
		if held.EnforcedBy == launch.MPS {
			d.own.Keep(held.Parts[0].GPU, held.Holder.UID, held.Fence)
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

// watching returns the settings of the watchdog. If this daemon is not the first on its
// machine, its watchdog only reports.
func (d *Daemon) watching(c config.Config) *config.Config {
	if d.second() != "" {
		c.GPU.Foreign, c.GPU.Overheat, c.GPU.OverLimit = watchdog.Show, watchdog.Tell, watchdog.Warn
		c.Services = nil
	}
	return &c
}

// tagOf returns a text that distinguishes the control groups of this daemon from those of
// another, which has another state folder.
func tagOf(folder string) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(absolute(folder))) // never fails
	return fmt.Sprintf("%08x", sum.Sum32())
}

// absolute returns a path of the configuration for programs that run in other folders. It
// returns the path itself if this process does not know where it runs.
func absolute(path string) string {
	if whole, err := filepath.Abs(path); err == nil && path != "" {
		return whole
	}
	return path
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

// machine returns the processors and the memory of the machine, or nil if the kernel does
// not tell.
func (d *Daemon) machine() *api.Machine {
	total, available, err := mover.Machine{}.Memory()
	load, loadErr := d.processes.Load()
	if err != nil || loadErr != nil {
		return nil
	}
	cpus := runtime.NumCPU()
	return &api.Machine{CPUs: cpus, Load: load, Percent: math.Round(1000*load/float64(cpus)) / 10, Total: total, Available: available}
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
