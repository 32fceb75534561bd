package desk

import (
	"cmp"
	"context"
	"fmt"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/process/launch"
)

// equipment returns what a launcher needs to know about the devices of a lease.
func (d *Desk) equipment(granted *lease.Lease, o *order) *api.Launch {
	e := &api.Launch{Context: d.Enforcement().Context, Isolation: o.isolation}
	for _, p := range granted.Parts {
		device := d.Ledger.Sum(p.GPU).Device
		device.UUID = p.GPU // also if the device has just gone
		e.Devices = append(e.Devices, device)
	}
	if d.ClearedBy != nil && !o.atOnce { // who asks so does not read a receipt
		e.ClearedBy = d.ClearedBy(e.Devices)
	}
	e.ClearedBy = cmp.Or(o.cleared, e.ClearedBy)
	return e
}

// environs reports whether whoever makes an order leaves the environment of the
// program to the daemon: they start it in a control group, or name its libraries.
func (o *order) environs() bool { return len(o.Caps) > 0 || len(o.Scope) > 0 }

// equip adds to the answer what a launcher needs, if the order is a launcher's:
// also for a lease that stood before.
func (d *Desk) equip(ctx context.Context, l *api.Lease, granted *lease.Lease, o *order) error {
	if o.Enforce == "" && !o.environs() {
		return nil
	}
	l.Launch = d.equipment(granted, o)
	if err := d.startMPS(ctx, granted, l.Launch); err != nil {
		return err
	}
	if o.environs() {
		environ(l, o.Caps)
	}
	return nil
}

// environ adds the environment of a program under a lease, whose launcher has none
// of its own to begin with.
func environ(l *api.Lease, caps []string) {
	variables, receipt := launch.Environment(*l, l.Launch.Devices, launch.Ladder{
		Context: l.Launch.Context, MPS: l.Launch.MPS, Isolation: l.Launch.Isolation, ClearedBy: l.Launch.ClearedBy, Caps: caps,
	}, nil)
	l.Launch.Environment, l.Launch.Receipt = variables, receipt.Sentence()
}

// AddLaunch adds to a lease that stands what a launcher needs to start a program
// under it, limited to the memory of the lease by the libraries in caps.
func (d *Desk) AddLaunch(ctx context.Context, by access.Actor, l *api.Lease, held ledger.Held, caps []string) error {
	if err := access.May(by, access.Inspect, access.Of(access.Held, held.Holder.UID, held.Holder.User)); err != nil {
		return Refused(fmt.Errorf("start a program under %s: %w", held.ID, err))
	}
	if bad, fine := knownCaps(caps); !fine {
		return wrongFields(lease.FieldErrors{bad})
	}
	o := &order{LeaseRequest: api.LeaseRequest{Caps: caps}, isolation: cmp.Or(l.IsolatedBy, launch.ByEnv)}
	l.Launch = d.equipment(held.Lease, o)
	if err := d.startMPS(ctx, held.Lease, l.Launch); err != nil {
		return err
	}
	environ(l, caps)
	return nil
}

// startMPS starts what a lease that MPS enforces needs. Where it fails, the
// lease must not stand: it would claim what does not hold.
func (d *Desk) startMPS(ctx context.Context, granted *lease.Lease, e *api.Launch) error {
	if granted.EnforcedBy != launch.MPS {
		return nil
	}
	pipe, err := d.MPS.Use(ctx, granted.Parts[0].GPU, granted.Holder.UID, granted.Fence)
	if err != nil {
		return because(err, Conflict, "mps_failed", "Try again, or with --enforce framework.")
	}
	// A lease that ended while MPS started did not tell MPS: it was not known there yet.
	if held, stands := d.Ledger.Find(granted.Key()); !stands || held.Lease.Fence != granted.Fence {
		d.MPS.Release(granted.Fence)
		return Refuse(Conflict, "lease_ended", "The lease %s ended while MPS started for it. Ask again.", granted.ID)
	}
	e.MPS = pipe
	return nil
}
