package desk

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/peaks"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/process/launch"
)

// Acquire grants a lease, now or when there is room. If the caller leaves meanwhile,
// nothing remains of the request.
func (d *Desk) Acquire(ctx context.Context, by Caller, b api.LeaseRequest) (api.Lease, error) {
	if b.ID == "" && len(b.Parts) == 0 {
		b.ID = madeUp("lease", 10)
	}
	return d.acquire(ctx, &by, &order{LeaseRequest: b})
}

// Launch grants the lease of a program that a launcher is about to start. It returns a
// note for the user and the changes to the environment of the program. It grants at once
// or not at all; a launch that it refuses does not count as a request.
func (d *Desk) Launch(ctx context.Context, by Caller, q launch.Question) (say string, changes []string, err error) {
	wish, plain := launch.ParsePlain(q.Flags, placement.PolicyNames())
	if len(q.Command) == 0 || !plain || wish.Compute > 0 || wish.Finish(q.Command, rand.Text()) != nil || by.Holder.PID == 0 {
		return "", nil, notPlain(nil)
	}
	wish.Timeout = gpu.Some(0.0)
	l, err := d.acquire(ctx, &by, &order{LeaseRequest: wish.LeaseRequest, atOnce: true})
	if err != nil {
		return "", nil, notPlain(err)
	}
	environ, _ := launch.Environment(l, l.Launch.Devices, launch.Ladder{
		Context: l.Launch.Context, Torch: q.Torch, Socket: d.Socket, Isolation: l.Launch.Isolation,
	}, q.Environ)
	return l.Note, launch.Changes(q.Environ, environ), nil
}

// notPlain refuses a launch that needs more than one question and one answer.
func notPlain(cause error) *Refusal {
	r := Refuse(Conflict, "not_plain", "This launch is not plain. Ask for the lease with POST /api/leases.")
	r.cause = cause
	return r
}

// acquire is the only way to a lease, for every door and for the runs of plans. It
// translates the order, asks the ledger while the caller stands aside, remembers the
// grant, and equips the lease. If anything fails after the grant, or the caller has left
// by then, it gives the lease back.
func (d *Desk) acquire(ctx context.Context, by *Caller, o *order) (api.Lease, error) {
	request, err := d.request(by, o)
	if err != nil {
		return api.Lease{}, err
	}
	if o.atOnce && (request.EnforcedBy == launch.MPS || d.Enforcement().Scrub || !d.Ledger.Fits(request)) {
		return api.Lease{}, errNotAtOnce
	}
	by.aside()
	found, err := d.Ledger.AcquireAgain(ctx, request, o.again)
	by.back(ctx)
	if err != nil {
		return api.Lease{}, Refused(err)
	}
	granted := found.Lease
	if o.learned {
		d.Peaks.Took(peaks.Key{User: granted.Holder.User, Name: granted.Holder.Name}, o.Memory)
	}
	l := LeaseOf(ledger.Held{Lease: granted})
	if l.Stood, l.Was = found.Stood, found.Was; found.Stood {
		if err := d.equip(ctx, &l, granted, o); err != nil {
			return api.Lease{}, err
		}
		return l, nil // even if the caller has left: the lease existed before
	}
	if o.Parent == "" { // a child uses the memory of its parent
		var note string
		if o.cleared, note = d.scrub(ctx, granted); note != "" {
			l.Note = strings.TrimPrefix(l.Note+"; "+note, "; ")
		}
	}
	if err := d.equip(ctx, &l, granted, o); err != nil {
		_ = d.giveBack(&l) // the lease may have ended by itself
		return api.Lease{}, err
	}
	if o.isolation == launch.ByCgroup && o.Parent == "" { // a child is handed to its process first
		note, err := d.enclose(granted)
		if err != nil {
			_ = d.giveBack(&l)
			return api.Lease{}, err
		}
		if l.IsolatedBy = launch.ByCgroup; note != "" {
			l.Note = strings.TrimPrefix(l.Note+"; "+note, "; ")
		}
	}
	if ctx.Err() != nil && request.Exact == nil { // repeating the request finds an exact lease
		if err := d.abandon(&l); err != nil {
			return api.Lease{}, err
		}
	}
	return l, nil
}

// errNotAtOnce refuses an order that cannot be granted at once.
var errNotAtOnce = Refuse(Conflict, "not_at_once", "This cannot be granted at once. Ask for it with the time that it may wait.")

// abandon gives back a lease whose caller has left and would never release it. It returns
// the refusal, or nil if the ledger has stopped: then the lease remains, and the answer
// may still get through.
func (d *Desk) abandon(l *api.Lease) error {
	if errors.Is(d.giveBack(l), ledger.ErrStopped) {
		return nil
	}
	return Refused(fmt.Errorf("wait for %s: %w", l.ID, ledger.ErrWithdrawn))
}

// giveBack ends a lease that nobody is going to use. If the journal refuses that now, the
// ledger tries again until it succeeds.
func (d *Desk) giveBack(l *api.Lease) error {
	err := d.Ledger.GiveBack(keyOf(l), l.Fence, "the client disconnected before it received the lease")
	if l.EnforcedBy == launch.MPS {
		d.MPS.Release(l.Fence) // even if the lease ended before MPS knew it
	}
	return err
}

// madeUp returns an id for a request that has none.
func madeUp(kind string, letters int) string {
	return kind + "-" + strings.ToLower(rand.Text()[:letters])
}
