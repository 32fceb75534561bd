package desk

import (
	"fmt"
	"slices"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/text/words"
)

// resolve looks up everything that a wish names. It refuses a wish that contradicts
// itself, or that this caller or this machine cannot have.
func (d *Leases) resolve(by *Caller, w *wish) (resolved, error) {
	bound := binding(&w.LeaseRequest)
	ends := bound // what ends the lease when its program runs
	if w.run != (lease.Run{}) {
		ends = lease.ByProcess
	}
	parts, err := w.exactly(by, bound)
	if err != nil {
		return resolved{}, err
	}
	service, err := by.serving(w.Service)
	if err != nil {
		return resolved{}, err
	}
	choice, err := d.where(w)
	if err != nil {
		return resolved{}, err
	}
	memory, note, learned := d.memory.ofWish(by, w, &choice.where)
	if errs := w.ofPool(memory); errs != nil {
		return resolved{}, errs
	}
	says := d.plain(w, learned)
	holder, absent, err := d.holder(by, w, service)
	if err != nil {
		return resolved{}, err
	}
	isolation, err := d.equip.isolation(w, ends, choice.named)
	if err != nil {
		return resolved{}, err
	}
	rung, err := d.equip.rung(w, ends, choice.named, memory > 0 || says.exclusive)
	if err != nil {
		return resolved{}, err
	}
	r := w.launch(isolation)
	r.learned, r.Request = learned, lease.Request{
		ID: w.ID, Run: w.run, Parent: says.parent, ParentFence: says.fence, FromPool: w.FromPool != "", Holder: holder, By: by.Actor, Again: w.again, Repeated: by.Repeated || w.run != (lease.Run{}),
		Binding: bound, Implied: w.implied, TTL: lease.Seconds(w.TTL.Or(0)), TimeLimit: lease.Seconds(w.TimeLimit.Or(0)),
		GPUs: w.GPUs, Memory: memory, Slots: says.slots, Where: choice.where, Only: w.only, Preferred: choice.preferred, Policy: w.Policy,
		AskedPriority: w.Priority, Limits: d.people.limitsOf(by, holder), Draw: d.memory.draw(holder),
		Terms: lease.Terms{EnforcedBy: rung, Note: joined(note, absent), Unit: w.Unit, Scope: w.Scope, Parkable: w.Parkable || slices.Contains(w.Optimize, lease.MayPark), Unshared: w.Unshared, Optimize: w.Optimize, Comment: w.Comment, Exclusive: says.exclusive, Pool: w.Pool},
	}
	r.Since, r.Precedes = w.since, w.precedes
	if wait, given := w.Timeout.Get(); given {
		r.Wait = gpu.Some(lease.Seconds(wait))
	}
	if parts != nil {
		r.Exact, r.GPUs, r.Memory, r.Slots = parts, len(parts), 0, 0
	}
	return r, nil
}

// launch returns what a launcher gets for a wish, without the request.
func (w *wish) launch(isolation string) resolved {
	environs := len(w.Caps) > 0 || len(w.Scope) > 0
	return resolved{launched: w.Enforce != "" || environs, environs: environs, caps: w.Caps, isolation: isolation}
}

// where finds the devices that a wish names. It reports everything that is wrong with
// the fields of the wish at once.
func (d *Leases) where(w *wish) (c choice, err error) {
	var errs lease.FieldErrors
	wrong := func(field, detail string) { errs = append(errs, lease.FieldError{Field: field, Detail: detail}) }
	if w.TimeLimit == gpu.Some(0.0) {
		wrong("time_limit_seconds", "is 0; leave it out for a lease without a time limit")
	}
	if bad := words.TextProblem(w.Name); w.Name != "" && bad != "" {
		wrong("name", bad)
	}
	if w.ParentFence != 0 && w.Parent == "" {
		wrong("parent_fence", "is set without parent; give the id of that lease too")
	}
	if len(w.Optimize) > 0 && len(w.Scope) == 0 {
		wrong("optimize", "is for a lease with a scope; use parkable, or services.NAME.parkable and shrinkable")
	}
	if bad, fine := checkCaps(w); !fine {
		errs = append(errs, bad)
	}
	if c.where, err = gpu.ParseWhere(w.Where); err != nil {
		wrong("where", err.Error())
	}
	if err := placement.CheckPolicy(w.Policy); err != nil {
		wrong("policy", err.Error())
	}
	if w.GPU != "" {
		found, err := d.devices.Find(string(w.GPU))
		if err != nil {
			return c, err
		}
		if !c.where.Allows(found.Device.UUID, found.Device.Index) {
			wrong("where", fmt.Sprintf("asks for %s, and gpu for %s: no device is both", c.where.GPU, found.Device.UUID))
		}
		c.where.GPU, c.named = found.Device.UUID, []gpu.Device{found.Device}
	}
	if errs != nil {
		return c, errs
	}
	if c.preferred = w.preferred; w.Prefer == "" {
		return c, nil
	}
	found, err := d.devices.Find(string(w.Prefer))
	if err != nil {
		return c, err
	}
	if !c.where.Allows(found.Device.UUID, found.Device.Index) {
		detail := fmt.Sprintf("asks for %s, and gpu for %s and no other: leave one of them out", found.Device.UUID, c.where.GPU)
		return c, lease.FieldErrors{{Field: "prefer", Detail: detail}}
	}
	c.preferred = found.Device.UUID
	return c, nil
}

// plain returns how a request shares its devices. A launcher asks for what earlier runs
// used, if the user says nothing. Where nothing was learned, the program gets a device
// alone, or what its parent has; where something was, it gets a lease of its own.
func (d *Leases) plain(w *wish, learned bool) extent {
	says := extent{exclusive: w.Exclusive, parent: w.Parent, fence: w.ParentFence, slots: w.Slots.Or(1)}
	switch {
	case w.FromPool != "":
		return extent{parent: w.FromPool, slots: w.Slots.Or(0)}
	case w.Pool: // it is memory for others
		return extent{parent: w.Parent, fence: w.ParentFence, exclusive: w.Exclusive, slots: w.Slots.Or(0)}
	}
	launched := w.Learned && w.Memory == 0 && w.Enforce != ""
	switch {
	case launched && learned && w.Parent != "" && says.slots == 0:
		says.parent, says.fence, says.slots = "", 0, 1
	case launched && !learned && w.Parent == "" && !w.Slots.Known():
		says.exclusive = d.config().GPU.Plain == "whole"
	}
	return says
}

// holder returns who is going to hold the lease of a wish. It refuses a caller who may
// not ask for them. The note says that the unit of the wish has no process yet.
func (d *Leases) holder(by *Caller, w *wish, service string) (holder lease.Holder, note string, err error) {
	holder = by.Holder
	holder.Service = service
	if w.Name != "" {
		holder.Name = w.Name
	}
	if w.PID != 0 {
		pid, err := by.here(w.PID)
		if err != nil {
			return holder, "", err
		}
		if holder, err = d.ledger.HolderOf(pid, by.Actor, holder); err != nil {
			return holder, "", err
		}
	}
	if w.as != "" {
		holder.Name = w.as
	}
	if len(w.Scope) > 0 {
		if err := access.May(by.Actor, access.Scope, access.Object{}); err != nil {
			return holder, "", fmt.Errorf("lease %s for a scope: %w", w.ID, err)
		}
		if wrong := d.ledger.ScopeProblem(w.Scope); wrong != "" {
			return holder, "", lease.FieldErrors{{Field: "scope", Detail: wrong}}
		}
	}
	if w.Unit == "" {
		return holder, "", nil
	}
	holder, note, err = d.ledger.HolderInUnit(w.Unit, by.Actor, holder)
	if by.Repeated && err == nil {
		// The unit was there when it was asked for, and what runs in it now may be
		// another user's, or nothing.
		if asked, waits := d.ledger.AbsentInUnit(w.ID, w.Unit, by.Actor); waits {
			holder.UID, holder.User = asked.UID, asked.User
			return holder, note, nil
		}
	}
	if err == nil && note != "" && w.unitExists && !process.HasUnitFile(w.Unit) { // a container that does not run is not there either
		err = Refuse(Unknown, "unknown_unit", "There is no unit or container %q here. systemctl list-units shows the units that run.", w.Unit)
	}
	return holder, note, err
}
