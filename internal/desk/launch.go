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

// equipment returns what a launcher needs to know about the devices of a lease. Cleared
// says who cleared their memory for it; if empty, equipment finds out who does that in
// general.
func (d *Desk) equipment(granted *lease.Lease, r *resolved, cleared string) *api.Launch {
	e := &api.Launch{Context: d.Config().GPU.Context, Isolation: r.isolation, ClearedBy: cleared}
	for _, p := range granted.Parts {
		device := d.Ledger.Sum(p.GPU).Device
		device.UUID = p.GPU // even if the device has just gone
		e.Devices = append(e.Devices, device)
	}
	if d.ClearedBy != nil && cleared == "" && !r.unread {
		e.ClearedBy = d.ClearedBy(e.Devices)
	}
	return e
}

// equip adds to the answer what a launcher needs, if one asks, also for a lease that
// existed before.
func (d *Desk) equip(ctx context.Context, l *api.Lease, granted *lease.Lease, r *resolved, cleared string) error {
	if !r.launched {
		return nil
	}
	l.Launch = d.equipment(granted, r, cleared)
	if err := d.startMPS(ctx, granted, l.Launch); err != nil {
		return err
	}
	if r.environs {
		environ(l, r.caps)
	}
	return nil
}

// environ adds to a lease the environment of its program, for a launcher that starts from
// an empty one.
func environ(l *api.Lease, caps []string) {
	variables, receipt := launch.Environment(*l, l.Launch.Devices, launch.Ladder{
		Context: l.Launch.Context, MPS: l.Launch.MPS, Isolation: l.Launch.Isolation, ClearedBy: l.Launch.ClearedBy, Caps: caps,
	}, nil)
	l.Launch.Environment, l.Launch.Receipt = variables, receipt.Sentence()
}

// AddLaunch adds to an existing lease what a launcher needs to start a program under it.
// The libraries in caps limit the program to the memory of the lease.
func (d *Desk) AddLaunch(ctx context.Context, by access.Actor, l *api.Lease, held ledger.Held, caps []string) error {
	if err := access.May(by, access.Inspect, access.Of(access.Held, held.Holder.UID, held.Holder.User)); err != nil {
		return Refused(fmt.Errorf("start a program under %s: %w", held.ID, err))
	}
	if bad, fine := knownCaps(caps); !fine {
		return wrongFields(lease.FieldErrors{bad})
	}
	return d.equip(ctx, l, held.Lease, &resolved{launched: true, environs: true, caps: caps, isolation: cmp.Or(l.IsolatedBy, launch.ByEnv)}, "")
}

// startMPS starts what a lease that MPS enforces needs. If it fails, the lease must not
// remain: nothing would enforce it.
func (d *Desk) startMPS(ctx context.Context, granted *lease.Lease, e *api.Launch) error {
	if granted.EnforcedBy != launch.MPS {
		return nil
	}
	pipe, err := d.MPS.Use(ctx, granted.Parts[0].GPU, granted.Holder.UID, granted.Fence)
	if err != nil {
		return because(err, Conflict, "mps_failed", "Try again, or with --enforce framework.")
	}
	// If the lease ended while MPS started, nothing released it there: MPS did not know
	// it yet.
	if held, stands := d.Ledger.Find(granted.Key()); !stands || held.Lease.Fence != granted.Fence {
		d.MPS.Release(granted.Fence)
		return Refuse(Conflict, "lease_ended", "The lease %s ended while MPS started for it. Ask again.", granted.ID)
	}
	e.MPS = pipe
	return nil
}
