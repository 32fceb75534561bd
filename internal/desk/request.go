package desk

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/peaks"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/text/words"
)

// wish is what a caller asks for, with what is added by the way that it came.
type wish struct {
	api.LeaseRequest
	as        string   // name of the holder; empty means that of its process
	preferred string   // UUID of the device to try first; may be empty
	only      []string // UUIDs of the devices to choose from; empty means any

	unitExists bool // whether to refuse a unit that does not exist; else it may come later

	implied bool        // nobody said what ends the lease
	again   lease.Again // which existing lease answers the request
	note    string      // how the lease differs from the request; may be empty

	run      lease.Run // what it is for, which is bound to its minder later; zero for what users ask for
	since    time.Time // since when the run waits
	precedes bool      // an operator gave the job its priority
}

// resolved is a wish for which the desk has looked everything up: the request for the
// ledger, and what becomes of the lease.
type resolved struct {
	lease.Request
	learned   bool     // Memory is what earlier runs used
	launched  bool     // a launcher asks, and gets what it needs
	environs  bool     // the launcher leaves the environment of the program to the daemon
	caps      []string // libraries that the environment limits
	isolation string   // what keeps the program from other devices
}

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
	r := resolved{
		Request: lease.Request{
			ID: w.ID, Run: w.run, Parent: says.parent, FromPool: w.FromPool != "", Holder: holder, By: by.Actor, Again: w.again, Repeated: by.Repeated || w.run != (lease.Run{}),
			Binding: bound, Implied: w.implied, TTL: lease.Seconds(w.TTL.Or(0)), TimeLimit: lease.Seconds(w.TimeLimit.Or(0)),
			GPUs: w.GPUs, Memory: memory, Slots: says.slots, Where: choice.where, Only: w.only, Preferred: choice.preferred, Policy: w.Policy,
			AskedPriority: w.Priority, Limits: d.people.limitsOf(by, holder), Draw: d.memory.draw(holder),
			Terms: lease.Terms{EnforcedBy: rung, Note: joined(note, absent), Unit: w.Unit, Scope: w.Scope, Parkable: w.Parkable || slices.Contains(w.Optimize, lease.MayPark), Unshared: w.Unshared, Optimize: w.Optimize, Comment: w.Comment, Exclusive: says.exclusive, Pool: w.Pool},
		},
		learned: learned, caps: w.Caps, isolation: isolation, environs: len(w.Caps) > 0 || len(w.Scope) > 0,
	}
	r.Since, r.Precedes = w.since, w.precedes
	r.launched = w.Enforce != "" || r.environs
	if wait, given := w.Timeout.Get(); given {
		r.Wait = gpu.Some(lease.Seconds(wait))
	}
	if parts != nil {
		r.Exact, r.GPUs, r.Memory, r.Slots = parts, len(parts), 0, 0
	}
	return r, nil
}

// exactly returns the parts of a wish that says exactly what it wants, or nil if it does
// not. It refuses a caller who may not ask for parts, and a wish that contradicts them.
func (w *wish) exactly(by *Caller, bound lease.Binding) ([]lease.Part, error) {
	if len(w.Parts) == 0 && !w.Admitted {
		return nil, nil
	}
	if err := access.May(by.Actor, access.Admit, access.Object{}); err != nil {
		return nil, fmt.Errorf("lease %s exactly: %w", w.ID, err)
	}
	if errs := w.contradictions(bound); errs != nil {
		return nil, errs
	}
	parts := make([]lease.Part, len(w.Parts))
	for i, p := range w.Parts {
		parts[i] = lease.Part{GPU: p.GPU, Memory: p.Memory, Slots: p.Slots}
	}
	return parts, nil
}

// contradictions lists the fields of a wish that contradict its parts.
func (w *wish) contradictions(bound lease.Binding) (errs lease.FieldErrors) {
	wrong := func(is bool, field, detail string) {
		if is {
			errs = append(errs, lease.FieldError{Field: field, Detail: detail})
		}
	}
	const beside = "is set beside parts, which say all about the devices; leave it out"
	wrong(len(w.Parts) == 0, "parts", "is empty; an admitted request says exactly what it wants on each device")
	wrong(!w.Admitted, "admitted", "is false; a request with parts needs it, because it goes before everybody who waits")
	wrong(w.ID == "", "id", "is empty; the same id finds the lease when the request is made again")
	wrong(w.GPUs > 1, "gpus", beside) // a body without gpus means 1
	wrong(w.Memory != 0, "memory_mb", beside)
	wrong(w.AllMemory, "all_memory", beside)
	wrong(w.Exclusive, "exclusive", beside)
	wrong(w.Slots.Known(), "slots", beside)
	wrong(w.GPU != "", "gpu", beside)
	wrong(w.Prefer != "", "prefer", beside)
	wrong(w.Policy != "", "policy", beside)
	wrong(w.Where != "", "where", beside)
	wrong(w.Learned, "learned_memory", beside)
	wrong(w.Pool, "pool", "is set beside parts; ask for a pool with memory_mb")
	wrong(w.FromPool != "", "from_pool", beside)
	wrong(w.Parent != "", "parent", "is set beside parts; a child has the devices of its parent")
	wrong(w.Timeout.Or(0) != 0, "timeout_seconds", "is set, and an admitted request never waits; leave it out")
	wrong(bound == lease.ByProcess, "binding", "is process; an admitted request is for a named lease, or one with a ttl")
	return errs
}

// ofPool lists the fields of a wish for a pool, or for memory of one, that contradict that.
func (w *wish) ofPool(memory gpu.MiB) (errs lease.FieldErrors) {
	wrong := func(is bool, field, detail string) {
		if is {
			errs = append(errs, lease.FieldError{Field: field, Detail: detail})
		}
	}
	if w.FromPool == "" {
		return nil
	}
	wrong(w.Pool, "pool", "is set beside from_pool; a pool cannot take its memory from another one")
	wrong(w.Parent != "", "parent", "is set beside from_pool, which is the parent; leave one of them out")
	wrong(w.Exclusive, "exclusive", "is set beside from_pool; the pool decides about the device")
	wrong(w.AllMemory, "all_memory", "is set beside from_pool; say how much of the pool it takes")
	wrong(memory == 0 && !w.AllMemory, "memory_mb", "is zero; say how much of the pool it takes (--memory 4GiB)")
	return errs
}

// choice says which devices a wish leaves to choose from.
type choice struct {
	where     gpu.Where    // the conditions that they must meet
	preferred string       // UUID of the device to try first; may be empty
	named     []gpu.Device // the only device that the wish allows; empty if it names none
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

// ofWish returns how much memory a wish is for on each device, with a note for the
// holder, and whether that is what earlier runs of the same name used.
func (d *Memory) ofWish(by *Caller, w *wish, where *gpu.Where) (memory gpu.MiB, note string, learned bool) {
	if w.AllMemory {
		return d.allMemory(where), w.note, false
	}
	if !w.Learned || w.Memory != 0 || w.Name == "" {
		return w.Memory, w.note, false
	}
	need, peak := d.peaks.Offer(peaks.Key{User: by.User, Name: w.Name}, d.config().GPU.Context, d.mostEver())
	if need == 0 {
		return 0, w.note, false
	}
	return need, w.Name + " gets " + need.String() + ": earlier runs used up to " + peak.String(), true
}

// allMemory returns the most memory that could ever be leased on one of the devices that
// meet these conditions.
func (d *Memory) allMemory(where *gpu.Where) (most gpu.MiB) {
	for _, sum := range d.ledger.Sums() {
		model := sum.Device.Model()
		if where.Allows(sum.Device.UUID, sum.Device.Index) && where.Unmet(&model) == "" {
			most = max(most, sum.Most)
		}
	}
	return most
}

// extent says how a request shares its devices.
type extent struct {
	exclusive bool
	parent    string
	slots     int
}

// plain returns how a request shares its devices. A launcher asks for what earlier runs
// used, if the user says nothing. Where nothing was learned, the program gets a device
// alone, or what its parent has; where something was, it gets a lease of its own.
func (d *Leases) plain(w *wish, learned bool) extent {
	says := extent{exclusive: w.Exclusive, parent: w.Parent, slots: w.Slots.Or(1)}
	switch {
	case w.FromPool != "":
		return extent{parent: w.FromPool, slots: w.Slots.Or(0)}
	case w.Pool: // it is memory for others
		return extent{parent: w.Parent, exclusive: w.Exclusive, slots: w.Slots.Or(0)}
	}
	launched := w.Learned && w.Memory == 0 && w.Enforce != ""
	switch {
	case launched && learned && w.Parent != "" && says.slots == 0:
		says.parent, says.slots = "", 1
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

// binding returns what ends the lease, also for a request that does not say it.
func binding(w *api.LeaseRequest) lease.Binding {
	switch {
	case w.Binding != "":
		return lease.Binding(w.Binding)
	case w.TTL.Known():
		return lease.ByTTL
	case w.PID != 0:
		return lease.ByProcess
	}
	return lease.ByName
}
