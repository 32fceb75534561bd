package desk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/job/owner"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/peaks"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/launch"
	"github.com/berth-gpu/berth/internal/process/runs"
	"github.com/berth-gpu/berth/internal/when/later"
)

// serviceLeases is the way of the owner of services to leases.
type serviceLeases struct{ desk *Desk }

// RunServices brings services and sends them away until ctx ends.
func (d *Desk) RunServices(ctx context.Context) error {
	d.releaseStrays()
	return d.Services.Run(ctx, serviceLeases{d})
}

// releaseStrays gives back the leases of which no service knows any more, because its state
// was lost. What a process has ends with it.
func (d *Desk) releaseStrays() {
	for _, held := range d.Ledger.View().Leases {
		if held.Run.Kind == lease.OfService && held.Binding != lease.ByProcess && d.Services.ServiceOf(held.Key()) == "" {
			_ = d.Ledger.GiveBack(held.Key(), held.Fence, "no service has it") // the ledger tries again
		}
	}
}

// asUser returns a user of this machine as a caller for whom the daemon runs a program.
// The limits are those of the user, and the groups those of the user database. That the
// lease of a program is a named one until its minder lives is nothing to the limits.
func (d *Desk) asUser(uid int, user, name string) Caller {
	by := Caller{
		Actor:  access.Actor{User: user, UID: uid, Door: access.Socket, Role: access.User},
		Holder: lease.Holder{UID: uid, User: user, Name: name},
	}
	if d.Limits == nil {
		return by
	}
	limits := *d.limitsOfUser(uid, user)
	limits.Named, limits.LongestWait = lease.Limit[bool]{}, lease.Limit[time.Duration]{}
	by.Limits = &limits
	return by
}

// limitsOfUser returns what a user of this machine may have.
func (d *Desk) limitsOfUser(uid int, user string) *quota.Limits {
	subject, rules := lease.Subject{Owner: lease.Owner{UID: uid}}, d.Limits.Load()
	if rules.Grouped() {
		_, groups, known := d.Users.Account(user)
		subject.Groups, subject.Sure = groups, known && groups != nil
	}
	return rules.Of(subject)
}

// programOf returns the user of a service as a caller, and what the program of the service
// asks for.
func (d *Desk) programOf(a *owner.Ask) (Caller, *wish) {
	s := a.Spec
	w := &wish{run: a.Run, since: a.Since, LeaseRequest: api.LeaseRequest{
		ID: a.ID, Name: s.Name, Service: s.Name, GPUs: max(s.GPUs, 1), Memory: s.Memory.Or(0), Exclusive: a.Whole, GPU: gpu.Ref(a.GPU), Enforce: "auto",
		Binding: string(lease.ByName), Timeout: gpu.Some(lease.MaxWait.Seconds()), Comment: "the program of the service " + s.Name,
	}}
	if !a.Whole {
		w.Slots = gpu.Some(0) // as an allocation for a service: memory decides how many run together
	}
	return d.asUser(s.UID, s.User, s.Name), w
}

// Acquire implements owner.Leases.
func (l serviceLeases) Acquire(ctx context.Context, a owner.Ask) (_ api.Lease, err error) {
	defer l.desk.Faults.Confine(&err, a.Spec.User, "asking for the lease of "+a.ID)
	by, w := l.desk.programOf(&a)
	return l.desk.acquire(ctx, &by, w)
}

// Never implements owner.Leases.
func (l serviceLeases) Never(a owner.Ask) (err error) {
	defer l.desk.Faults.Confine(&err, a.Spec.User, "asking for the lease of "+a.ID)
	by, w := l.desk.programOf(&a)
	w.ID = "" // the service may have its lease
	r, err := l.desk.resolve(&by, w)
	if err != nil {
		return Refused(err)
	}
	e, err := l.desk.Ledger.Explain(r.Request)
	switch {
	case err != nil:
		return Refused(err)
	case e.Refusal != nil && !e.Refusal.Ever:
		return Refused(e.Refusal)
	}
	return nil
}

// Hand implements owner.Leases.
func (l serviceLeases) Hand(ctx context.Context, k lease.Key, fence uint64, a owner.Ask, minder process.ID) (_ api.Lease, err error) {
	defer l.desk.Faults.Confine(&err, a.Spec.User, "handing over the lease of "+a.ID)
	by, w := l.desk.programOf(&a)
	return l.desk.hand(ctx, k, fence, &by, w, minder)
}

// hand binds the lease of a program to the minder that starts it, and returns the lease
// with what a launcher needs. As long as the lease stands, whatever fails passes: a device
// that is not found yet, MPS that does not start, a journal that is full.
func (d *Desk) hand(ctx context.Context, k lease.Key, fence uint64, by *Caller, w *wish, minder process.ID) (api.Lease, error) {
	bound, err := d.Ledger.Hand(ctx, k, fence, minder)
	var handed api.Lease
	if err == nil {
		handed, err = d.equipRun(ctx, bound, by, w)
	}
	switch {
	case err == nil:
		return handed, nil
	case d.Ledger.Lease(k, fence) == nil, errors.Is(err, process.ErrGone), errors.Is(err, lease.ErrUnknown): // its time may be over
		return api.Lease{}, runs.ErrNoLease
	}
	return api.Lease{}, later.Because(err, 0)
}

// equipRun returns a lease that is bound to a minder with what a launcher needs.
func (d *Desk) equipRun(ctx context.Context, bound *lease.Lease, by *Caller, w *wish) (api.Lease, error) {
	r, err := d.resolve(by, w)
	if err != nil {
		return api.Lease{}, err
	}
	handed := LeaseOf(ledger.Held{Lease: bound})
	if err := d.equip(ctx, &handed, bound, &r, ""); err != nil {
		return api.Lease{}, err
	}
	if r.isolation == launch.ByCgroup {
		if _, err := d.enclose(bound); err != nil {
			return api.Lease{}, err
		}
		handed.IsolatedBy = launch.ByCgroup
	}
	return handed, nil
}

// Claim implements owner.Leases.
func (l serviceLeases) Claim(k lease.Key, fence uint64) { l.desk.claim(k, fence) }

// claim notes that the lease with a fence is for the run in a key, if an earlier berth did
// not say so. If that fails now, the lease is found by its fence, and the next daemon
// claims it.
func (d *Desk) claim(k lease.Key, fence uint64) {
	if held := d.Ledger.Lease(k, fence); held != nil && held.Run == (lease.Run{}) {
		_ = d.Ledger.Claim(context.Background(), k, fence)
	}
}

// Release implements owner.Leases.
func (l serviceLeases) Release(k lease.Key, fence uint64, why string) {
	if held, stands := l.desk.Ledger.Find(k); fence == 0 && stands {
		fence = held.Fence
	}
	_ = l.desk.Ledger.GiveBack(k, fence, why) // if the ledger has stopped, the next daemon gives it back
}

// End implements owner.Leases.
func (l serviceLeases) End(k lease.Key, fence uint64, by access.Actor, why string) (err error) {
	defer l.desk.Faults.Confine(&err, k.User, "ending the programs of "+k.ID)
	_, err = l.desk.EndPrograms(context.Background(), by, k, fence, why)
	if errors.Is(err, lease.ErrUnknown) || errors.Is(err, lease.ErrStaleFence) {
		return runs.ErrNoLease
	}
	return err
}

// Park implements owner.Leases.
func (l serviceLeases) Park(ctx context.Context, k lease.Key, fence uint64, why string) (err error) {
	defer l.desk.Faults.Confine(&err, k.User, "parking "+k.ID)
	if l.Parked(k, fence) {
		return nil
	}
	if err := l.Parkable(k, fence); err != nil {
		return err
	}
	return l.desk.Parking.Park(ctx, k, fence, access.Daemon(), why, false)
}

// Resume implements owner.Leases.
func (l serviceLeases) Resume(ctx context.Context, k lease.Key, fence uint64, why string) (_ time.Duration, err error) {
	defer l.desk.Faults.Confine(&err, k.User, "resuming "+k.ID)
	if l.desk.Parking == nil {
		return 0, errNoParking
	}
	before, _ := l.desk.Parking.Of(fence)
	held := l.desk.Ledger.Lease(k, fence)
	switch {
	case held == nil:
		return 0, fmt.Errorf("resume %s: %w", k.ID, lease.ErrUnknown)
	case held.State != lease.Parked && before.Phase != move.Parked && before.Phase != move.Resuming && before.Phase != move.Parking:
		return 0, nil
	}
	if err := l.desk.Parking.Resume(ctx, k, fence, access.Daemon(), why, gpu.Opt[time.Duration]{}); err != nil {
		return 0, err
	}
	after, _ := l.desk.Parking.Of(fence)
	return max(after.Moving-before.Moving, 0), nil
}

// Shrink implements owner.Leases.
func (l serviceLeases) Shrink(ctx context.Context, k lease.Key, fence uint64, to gpu.MiB) error {
	return l.resize(ctx, k, fence, to, 0)
}

// Grow implements owner.Leases.
func (l serviceLeases) Grow(ctx context.Context, k lease.Key, fence uint64, to gpu.MiB, _ time.Time) error {
	return l.resize(ctx, k, fence, to, lease.MaxWait)
}

// resize gives a lease another size, if it has not that size already.
func (l serviceLeases) resize(ctx context.Context, k lease.Key, fence uint64, to gpu.MiB, wait time.Duration) (err error) {
	defer l.desk.Faults.Confine(&err, k.User, "resizing "+k.ID)
	if held := l.desk.Ledger.Lease(k, fence); held != nil && held.Parts[0].Memory == to {
		return nil
	}
	_, err = l.desk.Ledger.Resize(ctx, k.Name(), fence, to, access.Daemon(), nil, wait)
	return err
}

// Measured implements owner.Leases. It is the most that the processes have on one of the
// devices of the lease, which has the same size on each.
func (l serviceLeases) Measured(ctx context.Context, k lease.Key, fence uint64) (most gpu.MiB, err error) {
	defer l.desk.Faults.Confine(&err, k.User, "measuring "+k.ID)
	held := l.desk.Ledger.Lease(k, fence)
	if held == nil {
		return 0, fmt.Errorf("measure %s: %w", k.ID, lease.ErrUnknown)
	}
	for _, p := range held.Parts {
		l.desk.Monitor.Read(ctx, p.GPU)
	}
	now, stands := l.desk.Ledger.Find(k)
	switch {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case !stands || now.Fence != fence:
		return 0, fmt.Errorf("measure %s: %w", k.ID, lease.ErrUnknown)
	}
	for _, measured := range now.Measured {
		most = max(most, measured.Or(0))
	}
	return most, nil
}

// errNoParking says that a daemon parks nothing.
var errNoParking = errors.New("this daemon parks nothing")

// Parkable implements owner.Leases.
func (l serviceLeases) Parkable(k lease.Key, fence uint64) error {
	held := l.desk.Ledger.Lease(k, fence)
	switch {
	case l.desk.Parking == nil:
		return errNoParking
	case held == nil:
		return fmt.Errorf("park %s: %w", k.ID, lease.ErrUnknown)
	}
	if err := l.desk.Ledger.Unparkable(k, fence); err != nil {
		return err
	}
	if kept := l.desk.Parking.Kept(held); kept != "" {
		return errors.New(kept)
	}
	return nil
}

// Learned implements owner.Leases.
func (l serviceLeases) Learned(name string) (gpu.MiB, bool) {
	d := l.desk
	found, is := d.Services.Find(name)
	if !is {
		return 0, false
	}
	need, _ := d.Peaks.Offer(peaks.Key{User: found.User, Name: name}, d.Config().GPU.Context, d.mostEver())
	return need, need > 0
}

// Stands implements owner.Leases.
func (l serviceLeases) Stands(k lease.Key, fence uint64) (uint64, bool) {
	if fence != 0 {
		return fence, l.desk.Ledger.Lease(k, fence) != nil
	}
	held, stands := l.desk.Ledger.Find(k)
	if !stands {
		return 0, false
	}
	return held.Fence, true
}

// Size implements owner.Leases.
func (l serviceLeases) Size(k lease.Key, fence uint64) gpu.MiB {
	held := l.desk.Ledger.Lease(k, fence)
	if held == nil {
		return 0
	}
	return held.Parts[0].Memory
}

// Parked implements owner.Leases.
func (l serviceLeases) Parked(k lease.Key, fence uint64) bool {
	held := l.desk.Ledger.Lease(k, fence)
	return held != nil && held.State == lease.Parked
}

// Share implements owner.Leases.
func (l serviceLeases) Share(k lease.Key, fence uint64) float64 {
	return l.desk.Ledger.LeaseShare(k, fence)
}

// SetShares implements owner.Leases.
func (l serviceLeases) SetShares(shares map[lease.Key]float64) { l.desk.Ledger.SetShares(shares) }

var _ owner.Leases = serviceLeases{}
