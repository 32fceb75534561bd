package desk

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/process"
)

// order is one request on its way over the desk.
type order struct {
	api.LeaseRequest
	atOnce    bool     // to be granted now and without MPS, or else not to count as asked
	as        string   // name of the holder, whatever its process is called; empty: that of the process
	preferred string   // UUID of the device to try first; empty: none
	only      []string // UUIDs of the devices that will do; empty: any

	unitExists bool // refuse a unit that is not there; else it may come later

	implied bool         // nobody said what ends the lease
	again   ledger.Again // which lease that stands is an answer
	note    string       // what is different from what was asked for; empty: nothing

	learned bool // Desk.request has filled in the memory

	isolation string // Desk.request has settled it
	cleared   string // who has cleared the memory for this lease; empty: it was not done for this one
}

// request translates an order for the ledger: what was asked for, by whom, what
// earlier runs used, and who enforces it.
func (d *Desk) request(by *Caller, o *order) (lease.Request, error) {
	exact, err := o.exactly(by)
	if err != nil {
		return lease.Request{}, err
	}
	r := lease.Request{
		ID: o.ID, Holder: by.Holder, Binding: binding(&o.LeaseRequest), Implied: o.implied, TTL: lease.Seconds(o.TTL.Or(0)), TimeLimit: lease.Seconds(o.TimeLimit.Or(0)),
		AskedPriority: o.Priority, By: by.Actor, Only: o.only, Preferred: o.preferred,
	}
	r.Parent = o.Parent
	service, err := by.serving(o.Service)
	if err != nil {
		return r, err
	}
	r.Holder.Service = service
	if o.Name != "" {
		r.Holder.Name = o.Name
	}
	if wait, given := o.Timeout.Get(); given {
		r.Wait = gpu.Some(lease.Seconds(wait))
	}
	if r.Where, err = d.where(o); err != nil {
		return r, err
	}
	if o.Prefer != "" {
		if r.Preferred, err = d.preferred(string(o.Prefer), r.Where); err != nil {
			return r, err
		}
	}
	r.Note = cmp.Or(d.learn(o, by.User), o.note) // never both: an allocation says how much
	r.GPUs, r.Memory, r.Slots, r.Policy, r.Parkable, r.Unshared = o.GPUs, o.Memory, o.Slots.Or(1), o.Policy, o.Parkable, o.Unshared
	if exact != nil {
		r.Exact, r.Memory, r.Slots = exact, 0, 0
	}
	if o.PID != 0 {
		pid, err := by.here(o.PID)
		if err != nil {
			return r, Refused(err)
		}
		if r.Holder, err = d.Ledger.HolderOf(pid, by.Actor, r.Holder); err != nil {
			return r, Refused(err)
		}
	}
	if o.as != "" {
		r.Holder.Name = o.as
	}
	if err := d.kin(by, o, &r); err != nil {
		return r, err
	}
	r.Limits, r.Draw = d.limitsOf(by, r.Holder), d.draw(r.Holder)
	if o.isolation, err = d.isolation(&o.LeaseRequest, r.Binding); err != nil {
		return r, err
	}
	r.EnforcedBy, err = d.rung(&o.LeaseRequest, r.Binding == lease.ByProcess)
	return r, err
}

// kin adds which processes belong to the lease that an order is for, and refuses
// those who may not say so.
func (d *Desk) kin(by *Caller, o *order, r *lease.Request) error {
	r.Unit, r.Scope = o.Unit, o.Scope
	if len(o.Scope) > 0 {
		if err := access.May(by.Actor, access.Scope, access.Object{}); err != nil {
			return Refused(fmt.Errorf("lease %s for a scope: %w", o.ID, err))
		}
		if wrong := d.Ledger.ScopeProblem(o.Scope); wrong != "" {
			return wrongFields(lease.FieldErrors{{Field: "scope", Detail: wrong}})
		}
	}
	if o.Unit == "" {
		return nil
	}
	holder, note, err := d.Ledger.HolderInUnit(o.Unit, by.Actor, r.Holder)
	if err != nil {
		return Refused(err)
	}
	r.Holder = holder
	if note != "" && o.unitExists && !process.HasUnitFile(o.Unit) { // a container that does not run is not there either
		return Refuse(Unknown, "unknown_unit", "There is no unit or container %q here. systemctl list-units shows the units that run.", o.Unit)
	}
	if note != "" {
		r.Note = strings.TrimPrefix(r.Note+"; "+note, "; ")
	}
	return nil
}

// where returns what the devices of an order must be. It refuses everything at
// once that is wrong with the words of the order.
func (d *Desk) where(o *order) (gpu.Where, error) {
	var errs lease.FieldErrors
	wrong := func(field, detail string) { errs = append(errs, lease.FieldError{Field: field, Detail: detail}) }
	if o.TimeLimit == gpu.Some(0.0) {
		wrong("time_limit_seconds", "is 0; leave it out for a lease without a time limit")
	}
	if bad := (lease.FieldError{}); o.Name != "" && errors.As(lease.ValidName(o.Name), &bad) {
		errs = append(errs, bad)
	}
	if bad, fine := checkCaps(&o.LeaseRequest); !fine {
		errs = append(errs, bad)
	}
	where, err := gpu.ParseWhere(o.Where)
	if err != nil {
		wrong("where", err.Error())
	}
	if err := placement.CheckPolicy(o.Policy); err != nil {
		wrong("policy", err.Error())
	}
	if o.GPU != "" {
		found, err := d.Device(string(o.GPU))
		if err != nil {
			return where, err
		}
		if !where.Allows(found.Device.UUID, found.Device.Index) {
			wrong("where", fmt.Sprintf("asks for %s, and gpu for %s: no device is both", where.GPU, found.Device.UUID))
		}
		where.GPU = found.Device.UUID
	}
	if errs != nil {
		return where, wrongFields(errs)
	}
	return where, nil
}

// preferred returns the UUID of a device that an order prefers. It refuses a
// device that the order itself rules out.
func (d *Desk) preferred(name string, where gpu.Where) (string, error) {
	found, err := d.Device(name)
	if err != nil {
		return "", err
	}
	if !where.Allows(found.Device.UUID, found.Device.Index) {
		detail := fmt.Sprintf("asks for %s, and gpu for %s and no other: leave one of them out", found.Device.UUID, where.GPU)
		return "", wrongFields(lease.FieldErrors{{Field: "prefer", Detail: detail}})
	}
	return found.Device.UUID, nil
}

// binding returns what ends the lease, also for a request that does not say.
func binding(b *api.LeaseRequest) lease.Binding {
	switch {
	case b.Binding != "":
		return lease.Binding(b.Binding)
	case b.TTL.Known():
		return lease.ByTTL
	case b.PID != 0:
		return lease.ByProcess
	}
	return lease.ByName
}
