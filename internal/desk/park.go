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
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Park moves the memory of a lease to the memory of the machine. The move goes on if the
// caller leaves.
func (d *Leases) Park(ctx context.Context, by Caller, name lease.Name, b api.Park) (api.Lease, error) {
	why := gpu.Printable(b.Why, 256)
	return d.move(ctx, by, access.Park, name, b.Fence, why, func(held ledger.Held) error {
		if b.Unshared && !access.Owns(by.Actor, held.Object()) {
			return Refuse(Forbidden, "not_owner", "Only the owner of %s can say that its processes share no GPU memory. Ask them to park it, or set services.NAME.parkable: unshared if it belongs to a service. Nothing was changed.", held.ID)
		}
		return d.parking.Park(context.WithoutCancel(ctx), held.Key(), held.Fence, by.Actor, why, b.Unshared)
	})
}

// Resume moves the memory of a parked lease back to its device, now or when there is
// room. If the caller leaves while it waits for room, the lease stays parked.
func (d *Leases) Resume(ctx context.Context, by Caller, name lease.Name, b api.Resume) (api.Lease, error) {
	wait, err := d.patience(b.Timeout)
	if err != nil {
		return api.Lease{}, err
	}
	why := gpu.Printable(b.Why, 256)
	return d.move(ctx, by, access.Resume, name, b.Fence, why, func(held ledger.Held) error {
		return noRoom(held, wait, d.parking.Resume(ctx, held.Key(), held.Fence, by.Actor, why, gpu.Some(wait)))
	})
}

// noRoom returns the refusal for a lease that cannot return because its device has no
// room, also after the caller has waited. It returns other errors unchanged. The wait in
// a TimeoutError counts from when the lease was parked, so it is not how long the caller
// waited.
func noRoom(held ledger.Held, wait time.Duration, err error) error {
	noFit, late := (*placement.NoFitError)(nil), (*placement.TimeoutError)(nil)
	switch {
	case errors.As(err, &late):
		r := refusalOf(err)
		r.Detail = fmt.Sprintf("Cannot resume %s: there was no room within %s%s. It stays parked; give it more time, or resume it later.",
			held.ID, words.Duration(wait), inTheWay(late))
		r.cause = err
		return r
	case !errors.As(err, &noFit):
		return err
	}
	r := Refuse(Conflict, noFitCode(noFit), "Cannot resume %s: there is no room now%s. It stays parked; let it wait for room (berth resume --wait 10m), or resume it later.",
		held.ID, obstacle(noFit))
	r.Extra, r.cause = numbersOf(noFit), err
	return r
}

// Wake resumes a lease whose program asks for it. It changes nothing if the lease is not
// parked.
func (d *Leases) Wake(ctx context.Context, by Caller, name lease.Name, b api.Park) (api.Lease, error) {
	return d.move(ctx, by, access.Resume, name, b.Fence, gpu.Printable(b.Why, 256), func(held ledger.Held) error {
		return d.parking.Wake(ctx, held.Key(), held.Fence)
	})
}

// patience returns how long a request to resume waits for room.
func (d *Leases) patience(asked gpu.Opt[float64]) (time.Duration, error) {
	seconds, given := asked.Get()
	switch {
	case given && !(seconds >= 0 && seconds <= lease.MaxWait.Seconds()):
		return 0, wrongWait()
	case given:
		return lease.Seconds(seconds), nil
	}
	return d.config().Optimization.AllocationTimeout, nil
}

// move finds the lease that a caller names, moves its memory while the caller stands
// aside, and returns the lease as it is then. A move of somebody else's lease is an act
// of authority.
func (d *Leases) move(ctx context.Context, by Caller, verb access.Verb, name lease.Name, fence uint64, why string, do func(ledger.Held) error) (api.Lease, error) {
	held, err := d.held(&by, verb, name, fence)
	switch {
	case err != nil:
		return api.Lease{}, Refused(err)
	case d.parking == nil:
		return api.Lease{}, Refuse(Unavailable, "no_parking", "This daemon only looks, and parks nothing.")
	}
	if err := ofService(held.Key()); err != nil {
		return api.Lease{}, err
	}
	by.aside()
	err = d.actOn(&by, verb, held, nil, why, func() error { return do(held) })
	by.back(ctx)
	now, stands := d.ledger.Find(held.Key())
	switch {
	case !stands || now.Fence != held.Fence: // which is why it was not moved, if it was not
		return api.Lease{}, Refuse(Conflict, "lease_ended", "The lease %s ended meanwhile.", held.ID)
	case err != nil:
		return api.Lease{}, Refused(err)
	}
	l := LeaseOf(now)
	d.Whereabouts(&l, true)
	return l, nil
}

// Kept reports whether berth parks a parkable lease only if somebody says so.
func (d *Leases) Kept(held *lease.Lease) bool {
	return d.parking != nil && d.parking.Kept(held) != "" // the text names processes
}

// NotWaiting returns a sentence that says why a lease does not wait.
func (d *Leases) NotWaiting(held ledger.Held) string {
	if held.State == lease.Parked {
		return fmt.Sprintf("%s is parked, and does not wait for its turn: it stays parked until somebody resumes it (berth resume).", held.ID)
	}
	if d.parking != nil {
		switch s, _ := d.parking.Of(held.Fence); s.Phase {
		case move.Parking:
			return fmt.Sprintf("%s does not wait: it is being parked.", held.ID)
		case move.Resuming:
			return fmt.Sprintf("%s does not wait: its memory is on its way back to its device.", held.ID)
		}
	}
	return fmt.Sprintf("%s does not wait: it was granted at %s.", held.ID, held.Granted.Format("15:04:05"))
}

// WaitsFor returns a sentence about a request for an existing lease, with a space after
// it, or "" if the request is for a new lease.
func WaitsFor(r *lease.Request) string {
	switch r.For() {
	case "resume":
		return "It is parked, and waits to return to its device. "
	case "resize":
		return fmt.Sprintf("It waits to grow to %s on each device. ", r.Size)
	}
	return ""
}
