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

// order is a request while the desk works on it.
type order struct {
	api.LeaseRequest
	atOnce    bool     // grant now and without MPS, or do not count it as a request
	as        string   // name of the holder; empty means that of its process
	preferred string   // UUID of the device to try first; may be empty
	only      []string // UUIDs of the devices to choose from; empty means any

	unitExists bool // whether to refuse a unit that does not exist; else it may come later

	implied bool         // nobody said what ends the lease
	again   ledger.Again // which existing lease answers the request
	note    string       // how the lease differs from the request; may be empty

	learned bool // whether Desk.request has filled in the memory

	isolation string // set by Desk.request
	cleared   string // who cleared the memory for this lease; empty if nobody did
}

// request translates an order for the ledger: what it asks for, for whom, what earlier
// runs used, and what enforces it.
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
	r.Note = cmp.Or(d.learn(o, by.User), o.note) // never both: an allocation gives its memory
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

// kin adds which processes belong to the lease of an order, and refuses callers who may
// not say so.
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

// where returns the conditions that the devices of an order must meet. It reports
// everything that is wrong with the fields of the order at once.
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

// preferred returns the UUID of the device that an order prefers. It refuses a device
// that the order itself rules out.
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

// binding returns what ends the lease, also for a request that does not say it.
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
