package desk

import (
	"errors"
	"fmt"
	"math"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/enforce/idle"
	"github.com/berth-gpu/berth/internal/enforce/pace"
	"github.com/berth-gpu/berth/internal/file/fault"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/audit"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/numbers"
	"github.com/berth-gpu/berth/internal/lease/peaks"
	"github.com/berth-gpu/berth/internal/process"
)

// Leases are the memory and the slots that callers have, and wait for.
type Leases struct {
	devices   *Devices
	people    *People
	memory    *Memory
	foresight *Foresight
	equip     *equipper

	ledger    *ledger.Ledger
	peaks     *peaks.Peaks
	monitor   *monitor.Monitor
	processes process.Table
	numbers   *numbers.Numbers
	mps       MPS
	parking   Parking       // nil if this daemon parks nothing
	pacer     *pace.Pacer   // nil if this daemon paces nothing
	optimizer Optimizer     // nil if this daemon takes nothing back
	idle      *idle.Idlers  // nil if nobody watches
	faults    *fault.Faults // nil confines none
	config    func() *config.Config
	publish   func(gpu.Event)
	record    recorder

	reports reports
}

// Seek returns the key of the lease or request that the caller wants to look at. A caller
// who may not see the names of others cannot name them either.
func (d *Leases) Seek(by access.Actor, name lease.Name) (lease.Key, error) {
	unnamed := access.May(by, access.Name, access.Object{})
	if name.User != "" && unnamed != nil {
		return lease.Key{}, Refused(fmt.Errorf("look at %s: %w", name, unnamed))
	}
	k, err := d.ledger.Seek(by, access.Look, name)
	if several := (*lease.AmbiguousError)(nil); unnamed != nil && errors.As(err, &several) {
		several.Names = nil
	}
	if err != nil {
		return lease.Key{}, Refused(err)
	}
	return k, nil
}

// held returns the lease that a caller names and may act on. A fence of zero means any.
func (d *Leases) held(by *Caller, verb access.Verb, name lease.Name, fence uint64) (ledger.Held, error) {
	held, err := d.ledger.Held(by.Actor, verb, name)
	if err == nil && fence != 0 && fence != held.Fence {
		err = fmt.Errorf("%s %s: %w: %d; the lease with that id has fence %d", verb, held.ID, lease.ErrStaleFence, fence, held.Fence)
	}
	return held, err
}

// actOn acts on a lease. On a lease of another user, that is an act of authority.
func (d *Leases) actOn(by *Caller, verb access.Verb, held ledger.Held, after map[string]string, why string, do func() error) error {
	if access.Owns(by.Actor, held.Object()) {
		return do()
	}
	return d.record.act(api.AuditEntry{
		Who: audit.Who(by.Actor), What: verb.String(), Object: api.AuditObject{Kind: "lease", Owner: held.Holder.User, ID: held.ID}, After: after, Why: why,
	}, do)
}

// DeviceLease returns the part of a lease on a device as the API shows it. Unless whole
// is true, it leaves out who paces the lease.
func (d *Leases) DeviceLease(h lease.Holding, whole bool) api.DeviceLease {
	out := api.DeviceLease{
		ID: h.Lease.ID, Holder: HolderOf(h.Lease.Holder), State: string(h.Lease.State),
		Memory: h.Part.Memory, Measured: h.Measured, Slots: h.Part.Slots, Granted: h.Lease.Granted, Paced: d.Paced(h.Lease.Fence, whole),
	}
	if until, known := h.Lease.Until(); known {
		out.Until = &until
	}
	if d.parking != nil {
		if s, ever := d.parking.Of(h.Lease.Fence); ever && s.Phase != "" {
			out.State, out.Host = string(s.Phase), s.Host
		}
	}
	return out
}

// Paced returns the share that the lease with this fence is held to, as the API shows it,
// or nil if the lease runs freely. Unless whole is true, it names no user and no process.
func (d *Leases) Paced(fence uint64, whole bool) *api.Paced {
	if d.pacer == nil {
		return nil
	}
	p, held := d.pacer.Of(fence)
	if !held {
		return nil
	}
	out := &api.Paced{Share: p.Share(), Since: p.Since, HeldBy: []api.PacedBy{}}
	for _, h := range p.Holds {
		by := api.PacedBy{Share: h.Share, Source: string(h.Source)}
		if whole {
			by.By, by.Why = h.By, h.Why
		}
		out.HeldBy = append(out.HeldBy, by)
	}
	const some = 5 // turns; fewer say too little
	switch {
	case p.Refused != "" && whole:
		out.Refused = p.Refused
	case p.Refused != "":
		out.Refused = "its processes cannot be stopped"
	case p.Cycles >= some:
		out.Measured = gpu.Some(math.Round(1000*p.Measured.Share) / 1000)
		out.MeasuredBy = "duty"
		if p.Measured.Known {
			out.MeasuredBy = "driver"
		}
	}
	return out
}

// Whereabouts adds to a lease where its memory is. Unless whole is true, it names no user
// and no process.
func (d *Leases) Whereabouts(l *api.Lease, whole bool) {
	if d.parking == nil {
		return
	}
	s, ever := d.parking.Of(l.Fence)
	if !ever {
		return
	}
	// What the book says is parked holds nothing, whatever is known of its memory.
	if l.State == string(lease.Active) && (s.Phase == move.Parking || s.Phase == move.Resuming) {
		l.State = string(s.Phase)
	}
	l.Parking = &api.Parking{
		Since: s.Since, Host: s.Host, Returns: s.Returns, Times: s.Times, Moving: math.Round(1000*s.Moving.Seconds()) / 1000, Ground: string(s.Ground),
	}
	switch {
	case whole:
		l.Parking.By, l.Parking.Why, l.Parking.Failed = s.By, s.Why, s.Failed
	case s.Failed != "":
		l.Parking.Failed = "its memory could not be moved"
	}
}

// Complete adds to a lease what other keepers know about it: its share, its energy, where
// its memory is, and what its programs say about their libraries. Unless whole is true, it names no user and no process.
func (d *Leases) Complete(l *api.Lease, held ledger.Held, whole bool) {
	l.IsolatedBy, l.Energy, l.Paced = d.equip.IsolatedBy(held.Lease), d.devices.EnergyOf(held.Fence), d.Paced(held.Fence, whole)
	d.Whereabouts(l, whole)
	d.addIdle(l, held.Fence)
	if whole {
		l.Libraries = d.reports.sum(held.Fence, d.processes.Alive)
	}
}

// addIdle adds to a lease since when its processes have not used their devices.
func (d *Leases) addIdle(l *api.Lease, fence uint64) {
	if d.idle == nil {
		return
	}
	if idle, known := d.idle.Of(fence); known {
		l.Idle = &api.Idle{Since: idle.Since, Utilization: gpu.Some(idle.Utilization), Memory: idle.Memory}
	}
}
