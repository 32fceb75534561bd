// Package oversight decides what a sample means: it hands every reading of a device to
// the ledger, the peaks and the watchdog, and says which lease caused a fault.
package oversight

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access/users"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/enforce/idle"
	"github.com/berth-gpu/berth/internal/enforce/reclaim"
	"github.com/berth-gpu/berth/internal/enforce/slowdown"
	"github.com/berth-gpu/berth/internal/enforce/watchdog"
	"github.com/berth-gpu/berth/internal/health/drains"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/history/energy"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/archive"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/peaks"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/cgroup/enclosure"
	"github.com/berth-gpu/berth/internal/process/kinship"
	"github.com/berth-gpu/berth/internal/process/launch"
)

// Leases knows the holders of devices, and whose processes run where.
type Leases interface {
	Observe(o placement.Observation)
	Holdings(uuid string) []lease.Holding
	// Noted lists the holdings of leases whose processes were measured on a device, and
	// of those that berth may park by itself.
	Noted(uuid string) []lease.Holding
	Processes(uuid string) []ledger.Process
	Sum(uuid string) ledger.DeviceSum
}

// Watchdog acts on leases and processes that use what they do not hold.
type Watchdog interface {
	Look(on gpu.Device, now time.Time, holdings []lease.Holding, strangers []watchdog.Stranger)
	Stop(on gpu.Device, now time.Time, halt *watchdog.Halt, holdings []lease.Holding)
}

// MPS knows the daemons that enforce leases in the driver.
type MPS interface {
	// Serves reports whether a process, given with its ancestors, is one of these
	// daemons.
	Serves(line []process.ID) bool
	// Release notes that the lease with this fence has ended.
	Release(fence uint64)
}

// Batches takes notice of leases that end.
type Batches interface {
	Ended(l *lease.Lease, at time.Time)
}

// Options holds the keepers that oversight works with.
type Options struct {
	Leases    Leases
	Peaks     *peaks.Peaks
	Archive   *archive.Archive
	Energy    *energy.Meters
	Watchdog  Watchdog
	MPS       MPS
	Groups    *enclosure.Pool // control groups that keep processes from devices; nil if there are none
	Drains    *drains.Drains  // knows which healthy devices are closed; nil if nothing closes devices
	Batches   Batches
	Processes process.Table
	Names     *users.Names
	Idle      *idle.Idlers     // watches the leases that berth may park by itself
	Reclaim   *reclaim.Reclaim // hears what leases use that berth has shrunk; nil if it shrinks none
	Config    func() *config.Config

	// Throttle acts on a device. It must not block, and may be nil.
	Throttle func(monitor.Reading)
}

// Oversight decides what samples, faults and ended leases mean.
type Oversight struct{ Options }

// New returns an Oversight with these keepers.
func New(o Options) *Oversight { return &Oversight{o} }

// Observe hands a reading to the ledger. If the reading has a sample, Observe also tells
// the peaks and the watchdog what each lease and each stranger uses, the energy meters
// which processes use the device, and the idle watch which leases may be idle.
//
// A device whose sampler hangs is closed. Observe does not use its last sample again,
// because the hang may be in the search for the owners of its processes.
func (o *Oversight) Observe(r monitor.Reading) {
	r.Sampled = r.Sampled && !r.Stuck
	o.Leases.Observe(o.observation(r))
	if !r.Sampled {
		return
	}
	if o.Throttle != nil {
		o.Throttle(r)
	}
	uuid := r.Device.UUID
	held, processes := o.Leases.Noted(uuid), o.Leases.Processes(uuid)
	o.measured(uuid, held, processes, &r.Sample)
	if o.Reclaim != nil {
		o.Reclaim.Full(uuid, r.Standing.Full, r.Sample.Time)
	}
	o.Idle.Observe(r.Device, &r.Sample, o.idlers(held, processes))
	o.Energy.Observe(r.Device, &r.Sample, o.consumers(r.Device, processes, r.Sample.Processes != nil))
	o.Watchdog.Look(r.Device, r.Sample.Time, held, o.strangers(processes))
	why := halt(r)
	if why != nil { // it concerns those that use nothing, too
		held = o.Leases.Holdings(uuid)
	}
	o.Watchdog.Stop(r.Device, r.Sample.Time, why, held)
}

// Changed takes notice of a change in the book, and tells the keepers if a lease has
// ended.
func (o *Oversight) Changed(e *lease.Effect) {
	if !e.Ends() {
		return
	}
	l := e.Before
	used := o.Energy.Ended(l, e.Time)
	o.Archive.Ended(e, o.Peaks.Ended(l, used.Watts, e.Time), used.Joules)
	o.Batches.Ended(l, e.Time)
	if l.EnforcedBy == launch.MPS {
		o.MPS.Release(l.Fence)
	}
	if o.Groups != nil {
		o.Groups.Release(l.Fence)
	}
}

// MPSDied returns the event for an MPS daemon that ended by itself, on a device that label
// names for people.
func MPSDied(label, uuid string, now time.Time) gpu.Event {
	return gpu.Event{
		Time: now, Code: gpu.EventDeviceFault, Severity: gpu.Serious, GPU: uuid,
		Text: "An MPS daemon on " + label + " has ended by itself; the programs under it fail. The next lease starts another one.",
	}
}

// measured passes what the leases on a device use to the peaks, and to what gives shrunk
// leases their size back.
func (o *Oversight) measured(uuid string, held []lease.Holding, processes []ledger.Process, s *gpu.Sample) {
	for _, h := range held {
		if h.Measured > 0 {
			o.Peaks.Use(h.Lease, uuid, h.Measured, load(s, processes, h.Lease.Fence), s.Time)
		}
		if o.Reclaim != nil {
			o.Reclaim.Observe(h)
		}
	}
}

// load returns how much a lease used a device: all that the device did if nobody else is
// on it, else what the driver says of its processes. It is absent if that is not known.
func load(s *gpu.Sample, processes []ledger.Process, fence uint64) gpu.Opt[gpu.Percent] {
	var sum gpu.Opt[gpu.Percent]
	own := 0
	for _, p := range processes {
		if p.Lease == nil || p.Lease.Fence != fence {
			continue
		}
		own++
		if used, said := s.ProcessUtilization[p.Line[0].PID]; said {
			sum = gpu.Some(min(sum.Or(0)+used, 100))
		}
	}
	if own > 0 && own == len(processes) {
		return s.Utilization
	}
	return sum
}

// strangers returns the processes on a device that run under no lease but should. A
// process that only draws on a screen needs none.
func (o *Oversight) strangers(processes []ledger.Process) []watchdog.Stranger {
	var list []watchdog.Stranger
	for _, p := range processes {
		if p.Lease != nil || p.Kind == gpu.Graphics || o.MPS.Serves(p.Line) {
			continue
		}
		list = append(list, watchdog.Stranger{
			ID: p.Line[0], Name: p.Name, User: o.userOf(p.Line[0].PID), Memory: p.Memory, Ended: p.Ended, Pod: kinship.PodOf(o.Processes.Cgroups(p.Line[0].PID)),
		})
	}
	return list
}

// userOf returns the user of a process, or "" if the process has ended. It never waits for
// the user database, because that would delay the samples of a device.
func (o *Oversight) userOf(pid int) string {
	uid, err := o.Processes.UID(pid)
	if err != nil {
		return ""
	}
	return o.Names.Now(uid)
}

// halt returns why a device must not be used, or nil if it may be used.
func halt(r monitor.Reading) *watchdog.Halt {
	if !r.Stop {
		return nil
	}
	return &watchdog.Halt{Reason: r.Reason, Heat: r.Hot}
}

// observation returns a reading as the ledger takes it. If the policy only advises, the
// slots follow the state of a device only where nothing may be granted.
func (o *Oversight) observation(r monitor.Reading) placement.Observation {
	if policy := slowdown.Policy(o.Config().GPU.For(r.Device.UUID).Throttle); !policy.Does(slowdown.Slots) {
		r.Multiplier, r.Slower = slowdown.SlotSpeed(policy, r.State.Multiplier()), ""
	}
	seen := placement.Observation{
		Device: r.Device, State: r.State, Health: r.Health, Stop: r.Stop, Reason: r.Reason, Removed: r.Removed, Standing: r.Standing,
		Multiplier: gpu.Some(r.Multiplier), Slower: r.Slower,
	}
	if o.Drains != nil {
		seen.Closed = o.Drains.Why(r.Device)
	}
	if r.Sampled {
		seen.Sample = &r.Sample
	}
	if ahead := r.Outlook; ahead != nil {
		seen.Warmth = gpu.Some(placement.Warmth{Settles: ahead.Settles.Mean, PerWatt: ahead.PerWatt, Limit: ahead.Crossings[0].Limit})
	}
	return seen
}
