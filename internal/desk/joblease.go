package desk

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/health/thermal"
	"github.com/berth-gpu/berth/internal/job"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// jobLeases is the way of the keeper of jobs to leases.
type jobLeases struct {
	runLeases
	jobs *Jobs
}

// Run runs jobs until ctx ends.
func (d *Jobs) Run(ctx context.Context) error {
	return d.keeper.Run(ctx, jobLeases{runLeases{d.leases}, d})
}

// Signal implements keeper.Leases.
func (l jobLeases) Signal(k lease.Key, fence uint64, minder int, name string) {
	signal, known := process.SignalOf(name)
	held := l.leases.ledger.Lease(k, fence)
	if !known || held == nil {
		return
	}
	mandate := kinship.MandateOf(asUser(held.Holder.UID, held.Holder.User))
	for _, id := range l.leases.ledger.Members(k, fence) {
		if id.PID == minder { // it has to see how they end
			continue
		}
		_ = l.leases.processes.Signal(mandate, id, signal) // it may have ended
	}
}

// Ends implements keeper.Leases.
func (l jobLeases) Ends(k lease.Key, fence uint64) (time.Time, bool) {
	held := l.leases.ledger.Lease(k, fence)
	if held == nil {
		return time.Time{}, false
	}
	return held.Ends()
}

// Learn implements keeper.Leases.
func (l jobLeases) Learn(s *job.Spec, id string, o *job.Outcome, t *job.Task) (complete bool) {
	defer l.leases.faults.Catch(s.User, "measuring what "+id+" used", func(error) { complete = true })
	d, fence := l.jobs, t.Fence
	if energy, known := d.devices.EnergyOf(fence).Get(); known {
		t.Energy = gpu.Some(float64(energy))
	}
	used := d.leases.peaks.Used(fence)
	if used.Samples > 0 {
		t.Peak = gpu.Some(used.Peak)
	}
	if load, known := used.Load.Get(); known {
		t.Load = gpu.Some(tenths(float64(load)))
	}
	if !o.Began || o.Exit == gpu.Some(0) || t.State == job.Stopping {
		return true
	}
	if d.askWatchdog(fence, o); !o.Known {
		return true
	}
	for _, uuid := range t.Devices {
		o.Fault = cmp.Or(o.Fault, d.faultOf(uuid, t.Granted, o.Time))
	}
	if o.OverLimit != "" || o.Revoked != "" || o.Fault != "" || used.Samples == 0 { // one that no device has seen did not fail because of it
		return true
	}
	complete = true
	for _, uuid := range t.Devices {
		if r, found := d.monitor.Find(uuid); found && !r.Sample.Time.After(o.Time) {
			complete = complete && !d.monitor.Running()
			continue
		}
		o.OutOfMemory = cmp.Or(o.OutOfMemory, d.ranOut(uuid, o.Time))
	}
	return complete
}

// askWatchdog adds to the end of a run that the watchdog brought it about. A program that
// went on for a while after one of its processes was ended has ended for another reason.
func (d *Jobs) askWatchdog(fence uint64, o *job.Outcome) {
	if d.watchdog == nil {
		return
	}
	e := d.watchdog.Ended(fence)
	switch {
	case o.Time.After(e.At.Add(d.config().Optimization.DeallocationTimeout + noticed)):
	case e.OverLimit:
		o.OverLimit, o.Revoked = e.Why, ""
	default:
		o.Revoked = e.Why
	}
}

// noticed is how long after the end of a program its fault may be noticed.
const noticed = 5 * time.Second

// faultOf returns the fault that a device had between two moments, if the device is not
// trusted again since. An instance shares the faults of its device.
func (d *Jobs) faultOf(uuid string, from, to time.Time) string {
	r, found := d.monitor.Find(uuid)
	if !found {
		return ""
	}
	if s := &r.Standing; !s.Fault.Before(from) && !s.Fault.After(to.Add(noticed)) {
		return s.Why
	}
	if r.Device.Parent != "" {
		return d.faultOf(r.Device.Parent, from, to)
	}
	return ""
}

// ranOut says how much of the memory of a device was in use when a program on it ended, if
// that was all of it. It returns "" otherwise. The device must have been measured since
// then.
func (d *Jobs) ranOut(uuid string, end time.Time) string {
	c := d.config().GPU
	samples := d.monitor.History(uuid, end.Add(-2*c.MonitorInterval-time.Second), 0)
	// Its memory may be free a while before its end is written down.
	samples = slices.DeleteFunc(samples, func(s gpu.Sample) bool { return s.Time.After(end) || !thermal.Exhausted(c.For(uuid).Thresholds, &s) })
	if len(samples) == 0 {
		return ""
	}
	last, on := &samples[len(samples)-1], d.ledger.Sum(uuid).Device
	var strangers gpu.MiB
	for _, p := range d.ledger.Processes(uuid) {
		if p.Lease == nil {
			strangers += p.Memory
		}
	}
	used := fmt.Sprintf("%.0f %% of the memory of %s was in use", last.MemoryPercent().Or(0), on.Label())
	if strangers > 0 && strangers >= on.MemoryTotal/20 {
		used += ", " + strangers.String() + " of it by a stranger"
	}
	return used
}

// Taken implements keeper.Leases.
func (l jobLeases) Taken(s *job.Spec) bool {
	of := lease.Holder{UID: s.UID, User: s.User}.Owner()
	taken := l.leases.ledger.Taken(of, s.ID())
	for i := 0; i < s.Tasks() && s.Many() && !taken; i++ {
		taken = l.leases.ledger.Taken(of, s.TaskID(i))
	}
	return taken
}
