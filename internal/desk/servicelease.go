package desk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/job/owner"
	"github.com/berth-gpu/berth/internal/job/run"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/peaks"
	"github.com/berth-gpu/berth/internal/when/later"
)

// serviceLeases is the way of the owner of services to leases.
type serviceLeases struct {
	runLeases
	services *Services
}

// Run brings services and sends them away until ctx ends.
func (d *Services) Run(ctx context.Context) error {
	return d.owner.Run(ctx, serviceLeases{runLeases{d.leases}, d})
}

// Never implements owner.Leases.
func (l serviceLeases) Never(a run.Ask) (err error) {
	defer l.leases.faults.Confine(&err, a.User, "asking for the lease of "+a.Key.ID)
	by, _, unsure := l.leases.runner(&a)
	if later.Passes(unsure) {
		return nil
	}
	w := wishOf(&a)
	w.ID = "" // the service may have its lease
	r, err := l.leases.resolve(&by, w)
	if err != nil {
		return Refused(err)
	}
	e, err := l.leases.ledger.Explain(r.Request)
	switch {
	case err != nil:
		return Refused(err)
	case e.Refusal != nil && !e.Refusal.Ever:
		return Refused(e.Refusal)
	}
	return nil
}

// Park implements owner.Leases.
func (l serviceLeases) Park(ctx context.Context, k lease.Key, fence uint64, why string) (err error) {
	defer l.leases.faults.Confine(&err, k.User, "parking "+k.ID)
	if l.Parked(k, fence) {
		return nil
	}
	if err := l.Parkable(k, fence); err != nil {
		return err
	}
	return l.leases.parking.Park(ctx, k, fence, access.Daemon(), why, false)
}

// Resume implements owner.Leases.
func (l serviceLeases) Resume(ctx context.Context, k lease.Key, fence uint64, why string) (_ time.Duration, err error) {
	defer l.leases.faults.Confine(&err, k.User, "resuming "+k.ID)
	if l.leases.parking == nil {
		return 0, errNoParking
	}
	before, _ := l.leases.parking.Of(fence)
	held := l.leases.ledger.Lease(k, fence)
	switch {
	case held == nil:
		return 0, fmt.Errorf("resume %s: %w", k.ID, lease.ErrUnknown)
	case held.State != lease.Parked && before.Phase != move.Parked && before.Phase != move.Resuming && before.Phase != move.Parking:
		return 0, nil
	}
	if err := l.leases.parking.Resume(ctx, k, fence, access.Daemon(), why, gpu.Opt[time.Duration]{}); err != nil {
		return 0, passing(err)
	}
	after, _ := l.leases.parking.Of(fence)
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
	defer l.leases.faults.Confine(&err, k.User, "resizing "+k.ID)
	if held := l.leases.ledger.Lease(k, fence); held != nil && held.Parts[0].Memory == to {
		return nil
	}
	_, err = l.leases.ledger.Resize(ctx, k.Name(), fence, to, access.Daemon(), nil, wait)
	return passing(err)
}

// Measured implements owner.Leases. It is the most that the processes have on one of the
// devices of the lease, which has the same size on each.
func (l serviceLeases) Measured(ctx context.Context, k lease.Key, fence uint64) (most gpu.MiB, err error) {
	defer l.leases.faults.Confine(&err, k.User, "measuring "+k.ID)
	held := l.leases.ledger.Lease(k, fence)
	if held == nil {
		return 0, fmt.Errorf("measure %s: %w", k.ID, lease.ErrUnknown)
	}
	for _, p := range held.Parts {
		l.leases.monitor.Read(ctx, p.GPU)
	}
	now, stands := l.leases.ledger.Find(k)
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
	held := l.leases.ledger.Lease(k, fence)
	switch {
	case l.leases.parking == nil:
		return errNoParking
	case held == nil:
		return fmt.Errorf("park %s: %w", k.ID, lease.ErrUnknown)
	}
	if err := l.leases.ledger.Unparkable(k, fence); err != nil {
		return err
	}
	if kept := l.leases.parking.Kept(held); kept != "" {
		return errors.New(kept)
	}
	return nil
}

// Learned implements owner.Leases.
func (l serviceLeases) Learned(name string) (gpu.MiB, bool) {
	found, is := l.services.owner.Find(name)
	if !is {
		return 0, false
	}
	need, _ := l.leases.peaks.Offer(peaks.Key{User: found.User, Name: name}, l.leases.config().GPU.Context, l.leases.memory.mostEver())
	return need, need > 0
}

// Stands implements owner.Leases.
func (l serviceLeases) Stands(k lease.Key) bool {
	_, stands := l.leases.ledger.Find(k)
	return stands
}

// Size implements owner.Leases.
func (l serviceLeases) Size(k lease.Key, fence uint64) gpu.MiB {
	held := l.leases.ledger.Lease(k, fence)
	if held == nil {
		return 0
	}
	return held.Parts[0].Memory
}

// Parked implements owner.Leases.
func (l serviceLeases) Parked(k lease.Key, fence uint64) bool {
	held := l.leases.ledger.Lease(k, fence)
	return held != nil && held.State == lease.Parked
}

// Share implements owner.Leases.
func (l serviceLeases) Share(k lease.Key, fence uint64) float64 {
	return l.leases.ledger.LeaseShare(k, fence)
}

// SetShares implements owner.Leases.
func (l serviceLeases) SetShares(shares map[lease.Key]float64) { l.leases.ledger.SetShares(shares) }

var _ owner.Leases = serviceLeases{}
