package desk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/job/run"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/launch"
	"github.com/berth-gpu/berth/internal/process/runs"
	"github.com/berth-gpu/berth/internal/text/words"
	"github.com/berth-gpu/berth/internal/when/later"
)

// runLeases is the way to leases of the programs that berth runs.
type runLeases struct{ leases *Leases }

// runner returns the user of a run as a caller, and the limits of the user as LimitsOf does;
// those of the caller are for a program that the daemon runs.
func (d *Leases) runner(a *run.Ask) (by Caller, own *quota.Limits, unsure error) {
	own, unsure = LimitsOf(d.people.users, d.people.limits.Load(), a.Key.UID, a.User)
	limits := *own
	limits.Limits = *own.OfProgram()
	return Caller{Actor: asUser(a.Key.UID, a.User), Holder: lease.Holder{UID: a.Key.UID, User: a.User, Name: a.Name}, Limits: &limits}, own, unsure
}

// wishOf returns what a run asks for.
func wishOf(a *run.Ask) *wish {
	w := &wish{LeaseRequest: a.Request, run: a.Key.Run, since: a.Since, precedes: a.Request.Priority.Or(0) > 0}
	w.Binding, w.Timeout = string(lease.ByName), gpu.Some(lease.MaxWait.Seconds())
	return w
}

// Acquire implements run.Leases. While the user database does not say what the user may have,
// the run asks again: it could end for good, or get a time limit, by the limits of a group that
// the user is not in.
func (l runLeases) Acquire(ctx context.Context, a run.Ask) (_ api.Lease, err error) {
	defer l.leases.faults.Confine(&err, a.User, "asking for the lease of "+a.Key.ID)
	by, own, unsure := l.leases.runner(&a)
	if later.Passes(unsure) {
		return api.Lease{}, unsure
	}
	if unsure != nil { // nobody has the name: the job is held once its minder finds that out
		own.LongestWait = lease.Limit[time.Duration]{}
	}
	w := wishOf(&a)
	longest, bounded := longestWait(&a, own)
	if bounded {
		left := time.Until(a.Since.Add(longest))
		w.Timeout = gpu.Some(max(min(left, lease.MaxWait).Seconds(), 0))
	}
	got, err := l.leases.acquire(ctx, &by, w)
	if bounded && err != nil && hasWaited(err, time.Since(a.Since) >= longest) {
		return api.Lease{}, fmt.Errorf("%w: there was no room within %s", run.ErrWaited, words.Duration(longest))
	}
	return got, passing(err)
}

// passing marks an error of the ledger that passes, as on a full disk: whoever keeps runs asks
// again then.
func passing(err error) error {
	if err != nil {
		switch Refused(err).Kind {
		case DiskFull, Unavailable, Crowded:
			return later.Because(err, 0)
		}
	}
	return err
}

// hasWaited reports whether the wait of a run ended for want of room. Over says that its
// time is over: then so does a refusal, unless it is for a failure of the daemon, which says
// nothing about room.
func hasWaited(err error, over bool) bool {
	if late := (*placement.TimeoutError)(nil); errors.As(err, &late) {
		return true
	}
	kind := Refused(err).Kind
	return over && kind != Failed && kind != DiskFull && kind != Unavailable && kind != Withdrawn
}

// longestWait returns how long a run may wait for its lease, if that is limited.
func longestWait(a *run.Ask, own *quota.Limits) (time.Duration, bool) {
	if a.Key.Run.Kind != lease.OfJob {
		return 0, false
	}
	seconds, bounded := a.Request.Timeout.Get()
	longest := lease.Seconds(seconds)
	if most, limited := own.LongestWait.Get(); limited && (!bounded || most < longest) {
		return most, true
	}
	return longest, bounded
}

// Hand implements run.Leases. As long as the lease stands, whatever fails passes: a device
// that is not found yet, MPS that does not start, a journal that is full.
func (l runLeases) Hand(ctx context.Context, a run.Ask, fence uint64, minder process.ID) (_ api.Lease, err error) {
	defer l.leases.faults.Confine(&err, a.User, "handing over the lease of "+a.Key.ID)
	w := wishOf(&a)
	bound, err := l.leases.ledger.Hand(ctx, a.Key, fence, minder)
	var handed api.Lease
	if err == nil {
		handed, err = l.leases.equipRun(ctx, bound, w)
	}
	switch {
	case err == nil:
		return handed, nil
	case l.leases.ledger.Lease(a.Key, fence) == nil, l.leases.processes.Ended(minder), errors.Is(err, lease.ErrUnknown): // its time may be over
		return api.Lease{}, runs.ErrNoLease
	}
	return api.Lease{}, later.Because(err, 0)
}

// equipRun returns a lease that is bound to a minder with what a launcher needs. What was
// granted is in the lease: it is not chosen again, by settings that may have changed.
func (d *Leases) equipRun(ctx context.Context, bound *lease.Lease, w *wish) (api.Lease, error) {
	var devices []gpu.Device
	for _, p := range bound.Parts {
		found, err := d.devices.Find(p.GPU)
		if err != nil {
			return api.Lease{}, err
		}
		devices = append(devices, found.Device)
	}
	isolation, err := d.equip.isolation(w, lease.ByProcess, devices)
	if err != nil {
		return api.Lease{}, err
	}
	r := w.launch(isolation)
	handed := LeaseOf(ledger.Held{Lease: bound})
	if err := d.equip.equip(ctx, &handed, bound, &r, ""); err != nil {
		return api.Lease{}, err
	}
	if r.isolation == launch.ByCgroup {
		if _, err := d.equip.enclose(bound); err != nil {
			return api.Lease{}, err
		}
		handed.IsolatedBy = launch.ByCgroup
	}
	return handed, nil
}

// End implements run.Leases.
func (l runLeases) End(k lease.Key, fence uint64, by access.Actor, why string) (err error) {
	defer l.leases.faults.Confine(&err, k.User, "ending the programs of "+k.ID)
	_, err = l.leases.EndPrograms(context.Background(), by, k, fence, why)
	if errors.Is(err, lease.ErrUnknown) || errors.Is(err, lease.ErrStaleFence) {
		return runs.ErrNoLease
	}
	return err
}

// Release implements run.Leases.
func (l runLeases) Release(k lease.Key, fence uint64, why string) {
	if held, stands := l.leases.ledger.Find(k); fence == 0 && stands {
		fence = held.Fence
	}
	_ = l.leases.ledger.GiveBack(k, fence, why) // if the ledger has stopped, the next daemon gives it back
}

// Claim implements run.Leases. If that fails now, the lease is found by its fence, and the
// next daemon claims it.
func (l runLeases) Claim(k lease.Key, fence uint64) (stands bool) {
	held := l.leases.ledger.Lease(k, fence)
	if held != nil && held.Run == (lease.Run{}) {
		_ = l.leases.ledger.Claim(context.Background(), k, fence)
	}
	return held != nil
}

// List implements run.Leases.
func (l runLeases) List(kind lease.RunKind) (all []run.Held) {
	for _, held := range l.leases.ledger.View().Leases {
		if held.Run.Kind == kind {
			all = append(all, run.Held{Key: held.Key(), Fence: held.Fence, Bound: held.Binding == lease.ByProcess})
		}
	}
	return all
}
