package desk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/health/thermal"
	"github.com/berth-gpu/berth/internal/job"
	"github.com/berth-gpu/berth/internal/job/keeper"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
	"github.com/berth-gpu/berth/internal/process/runs"
	"github.com/berth-gpu/berth/internal/text/words"
)

// jobLeases is the way of the keeper of jobs to leases.
type jobLeases struct{ desk *Desk }

// RunJobs runs jobs until ctx ends.
func (d *Desk) RunJobs(ctx context.Context) error { return d.Jobs.Run(ctx, jobLeases{d}) }

// keyOfTask returns the key of the lease of a task.
func keyOfTask(s *job.Spec, id string) lease.Key {
	named, _ := job.ParseID(id)
	return lease.Key{
		Owner: lease.Holder{UID: s.UID, User: s.User}.Owner(), ID: id,
		Run: lease.Run{Kind: lease.OfJob, Number: s.Number, Task: named.Task},
	}
}

func keyOfClaim(of *keeper.Claim) lease.Key { return keyOfTask(of.Spec, of.ID) }

// ownerOf returns the owner of a job as a caller.
func (d *Desk) ownerOf(s *job.Spec) Caller { return d.asUser(s.UID, s.User, s.Called) }

// wishOf returns what the task of a claim asks for.
func (d *Desk) wishOf(of *keeper.Claim) *wish {
	w := of.Spec.Lease
	w.ID, w.Binding, w.Timeout = of.ID, string(lease.ByName), gpu.Some(lease.MaxWait.Seconds())
	if of.Priority != 0 {
		w.Priority = gpu.Some(of.Priority)
	}
	return &wish{LeaseRequest: w, run: keyOfClaim(of).Run, since: of.Since, precedes: of.Priority > 0}
}

// Acquire implements keeper.Leases.
func (l jobLeases) Acquire(ctx context.Context, of keeper.Claim) (_ api.Lease, err error) {
	defer l.desk.Faults.Confine(&err, of.Spec.User, "asking for the lease of "+of.ID)
	by := l.desk.ownerOf(of.Spec)
	w := l.desk.wishOf(&of)
	longest, bounded := l.longestWait(&of)
	if bounded {
		left := time.Until(of.Since.Add(longest))
		w.Timeout = gpu.Some(max(min(left, lease.MaxWait).Seconds(), 0))
	}
	got, err := l.desk.acquire(ctx, &by, w)
	if late := (*placement.TimeoutError)(nil); bounded && errors.As(err, &late) || bounded && err != nil && time.Since(of.Since) >= longest {
		return api.Lease{}, fmt.Errorf("%w: there was no room within %s", keeper.ErrWaited, words.Duration(longest))
	}
	return got, err
}

// longestWait returns how long a task may wait for its lease, if that is limited.
func (l jobLeases) longestWait(of *keeper.Claim) (time.Duration, bool) {
	seconds, bounded := of.Spec.Lease.Timeout.Get()
	longest := lease.Seconds(seconds)
	if l.desk.Limits == nil {
		return longest, bounded
	}
	if most, limited := l.desk.limitsOfUser(of.Spec.UID, of.Spec.User).LongestWait.Get(); limited && (!bounded || most < longest) {
		return most, true
	}
	return longest, bounded
}

// Hand implements keeper.Leases.
func (l jobLeases) Hand(ctx context.Context, of keeper.Claim, to process.ID) (_ api.Lease, err error) {
	defer l.desk.Faults.Confine(&err, of.Spec.User, "handing over the lease of "+of.ID)
	by := l.desk.ownerOf(of.Spec)
	return l.desk.hand(ctx, keyOfClaim(&of), of.Task.Fence, &by, l.desk.wishOf(&of), to)
}

// Release implements keeper.Leases.
func (l jobLeases) Release(of keeper.Claim) {
	fence := of.Task.Fence
	if held, stands := l.desk.Ledger.Find(keyOfClaim(&of)); fence == 0 && stands {
		fence = held.Fence
	}
	_ = l.desk.Ledger.GiveBack(keyOfClaim(&of), fence, "the job has ended, or waits again") // if the ledger has stopped, the next daemon gives it back
}

// End implements keeper.Leases.
func (l jobLeases) End(of keeper.Claim, by access.Actor) error {
	_, err := l.desk.EndPrograms(context.Background(), by, keyOfClaim(&of), of.Task.Fence, "its job was cancelled")
	if errors.Is(err, lease.ErrUnknown) || errors.Is(err, lease.ErrStaleFence) {
		return runs.ErrNoLease
	}
	return err
}

// Stands implements keeper.Leases.
func (l jobLeases) Stands(of keeper.Claim) bool {
	return l.desk.Ledger.Lease(keyOfClaim(&of), of.Task.Fence) != nil
}

// Signal implements keeper.Leases.
func (l jobLeases) Signal(of keeper.Claim, name string) {
	signal, known := process.SignalOf(name)
	if !known {
		return
	}
	mandate := kinship.MandateOf(l.desk.ownerOf(of.Spec).Actor)
	for _, id := range l.desk.Ledger.Members(keyOfClaim(&of), of.Task.Fence) {
		if id.PID == of.Task.PID { // the minder has to see how they end
			continue
		}
		_ = l.desk.Processes.Signal(mandate, id, signal) // it may have ended
	}
}

// Ends implements keeper.Leases.
func (l jobLeases) Ends(of keeper.Claim) (time.Time, bool) {
	held := l.desk.Ledger.Lease(keyOfClaim(&of), of.Task.Fence)
	if held == nil {
		return time.Time{}, false
	}
	return held.Ends()
}

// Learn implements keeper.Leases.
func (l jobLeases) Learn(of keeper.Claim, o *job.Outcome, t *job.Task) (complete bool) {
	defer l.desk.Faults.Catch(of.Spec.User, "measuring what "+of.ID+" used", func(error) { complete = true })
	d, fence := l.desk, of.Task.Fence
	if energy, known := d.UsedBy(fence).Get(); known {
		t.Energy = gpu.Some(float64(energy))
	}
	used := d.Peaks.Used(fence)
	if used.Samples > 0 {
		t.Peak = gpu.Some(used.Peak)
	}
	if load, known := used.Load.Get(); known {
		t.Load = gpu.Some(tenths(float64(load)))
	}
	if !o.Known || !o.Began || o.Exit == gpu.Some(0) || t.State == job.Stopping {
		return true
	}
	d.askWatchdog(fence, o)
	for _, uuid := range t.Devices {
		o.Fault = cmp.Or(o.Fault, d.faultOf(uuid, t.Granted, o.Time))
	}
	if o.OverLimit != "" || o.Revoked != "" || o.Fault != "" || used.Samples == 0 { // one that no device has seen did not fail because of it
		return true
	}
	complete = true
	for _, uuid := range t.Devices {
		if r, found := d.Monitor.Find(uuid); found && !r.Sample.Time.After(o.Time) {
			complete = complete && !d.Monitor.Running()
			continue
		}
		o.OutOfMemory = cmp.Or(o.OutOfMemory, d.ranOut(uuid, o.Time))
	}
	return complete
}

// askWatchdog adds to the end of a run that the watchdog brought it about. A program that
// went on for a while after one of its processes was ended has ended for another reason.
func (d *Desk) askWatchdog(fence uint64, o *job.Outcome) {
	if d.Watchdog == nil {
		return
	}
	e := d.Watchdog.Ended(fence)
	switch {
	case o.Time.After(e.At.Add(d.Config().Optimization.DeallocationTimeout + noticed)):
	case e.OverLimit:
		o.OverLimit = e.Why
	default:
		o.Revoked = e.Why
	}
}

// noticed is how long after the end of a program its fault may be noticed.
const noticed = 5 * time.Second

// faultOf returns the fault that a device had between two moments, if the device is not
// trusted again since. An instance shares the faults of its device.
func (d *Desk) faultOf(uuid string, from, to time.Time) string {
	r, found := d.Monitor.Find(uuid)
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
func (d *Desk) ranOut(uuid string, end time.Time) string {
	c := d.Config().GPU
	samples := d.Monitor.History(uuid, end.Add(-2*c.MonitorInterval-time.Second), 0)
	// Its memory may be free a while before its end is written down.
	samples = slices.DeleteFunc(samples, func(s gpu.Sample) bool { return s.Time.After(end) || !thermal.Exhausted(c.For(uuid).Thresholds, &s) })
	if len(samples) == 0 {
		return ""
	}
	last, on := &samples[len(samples)-1], d.Ledger.Sum(uuid).Device
	var strangers gpu.MiB
	for _, p := range d.Ledger.Processes(uuid) {
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

// Claims implements keeper.Leases.
func (l jobLeases) Claims() (all []keeper.Claimed) {
	for _, held := range l.desk.Ledger.View().Leases {
		if _, err := job.ParseID(held.ID); err == nil && held.Run.Kind != lease.OfService {
			all = append(all, keeper.Claimed{ID: held.ID, UID: held.Holder.UID, Fence: held.Fence, OfJob: held.Run.Kind == lease.OfJob, Bound: held.Binding == lease.ByProcess})
		}
	}
	return all
}

// Claim implements keeper.Leases.
func (l jobLeases) Claim(of keeper.Claim) { l.desk.claim(keyOfClaim(&of), of.Task.Fence) }

// Taken implements keeper.Leases.
func (l jobLeases) Taken(s *job.Spec) bool {
	of := lease.Holder{UID: s.UID, User: s.User}.Owner()
	taken := l.desk.Ledger.Taken(of, s.ID())
	for i := 0; i < s.Tasks() && s.Many() && !taken; i++ {
		taken = l.desk.Ledger.Taken(of, s.TaskID(i))
	}
	return taken
}
