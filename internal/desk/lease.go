package desk

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/enforce/idle"
	"github.com/berth-gpu/berth/internal/enforce/pace"
	"github.com/berth-gpu/berth/internal/file/fault"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/audit"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/numbers"
	"github.com/berth-gpu/berth/internal/lease/peaks"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/launch"
	"github.com/berth-gpu/berth/internal/text/words"
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

// Release ends a lease, or withdraws a request that waits; lease.Book.Seek says which one
// a name means. A fence of zero means any. Release ends no program: if one would go on
// without its lease, whoever else asks has to give the fence, or say that it may go on.
func (d *Leases) Release(ctx context.Context, by Caller, name lease.Name, fence uint64, keepRunning bool) (api.Ended, error) {
	if fence == 0 && !keepRunning {
		var err error
		if fence, err = d.stranded(&by, name); err != nil {
			return api.Ended{}, err
		}
	}
	by.aside()
	ended, err := d.ledger.Release(ctx, name, fence, by.Actor)
	by.back(ctx)
	if err != nil {
		return api.Ended{}, Refused(err)
	}
	result := api.Ended{ID: name.ID}
	if ended != nil {
		held := LeaseOf(ledger.Held{Lease: ended})
		held.State, held.Energy = "released", d.devices.EnergyOf(ended.Fence)
		result.Lease = &held
	}
	return result, nil
}

// Renew extends a lease by another time to live.
func (d *Leases) Renew(ctx context.Context, by Caller, name lease.Name, b api.Renew) (api.Lease, error) {
	ttl := lease.Seconds(b.TTL.Or(0))
	if bad := lease.TTLProblem(ttl); b.TTL.Known() && bad != "" {
		return api.Lease{}, wrongFields(lease.FieldErrors{{Field: "ttl_seconds", Detail: bad}})
	}
	return by.changed(ctx, func() (*lease.Lease, error) {
		return d.ledger.Renew(ctx, name, b.Fence, ttl, by.Actor, by.limits())
	})
}

// Resize gives a lease another amount of memory on each of its devices. A larger amount
// waits for room if the caller wants that.
func (d *Leases) Resize(ctx context.Context, by Caller, name lease.Name, b api.Resize) (api.Lease, error) {
	wait := b.Timeout.Or(0)
	if !(wait >= 0 && wait <= lease.MaxWait.Seconds()) {
		return api.Lease{}, wrongWait()
	}
	return by.changed(ctx, func() (*lease.Lease, error) {
		return d.ledger.Resize(ctx, name, b.Fence, b.Memory, by.Actor, by.limits(), lease.Seconds(wait))
	})
}

// Bind hands a lease that is bound to a process to another process.
func (d *Leases) Bind(ctx context.Context, by Caller, name lease.Name, b api.Bind) (api.Lease, error) {
	pid, err := by.here(b.PID)
	if err != nil {
		return api.Lease{}, Refused(err)
	}
	var bound *lease.Lease
	l, err := by.changed(ctx, func() (_ *lease.Lease, err error) {
		bound, err = d.ledger.Bind(ctx, name, b.Fence, pid, by.Actor)
		return bound, err
	})
	if err == nil && b.Isolation == launch.ByCgroup {
		if _, err := d.equip.enclose(bound); err != nil {
			return api.Lease{}, err // the caller ends the process, and the lease goes with it
		}
		l.IsolatedBy = launch.ByCgroup
	}
	return l, err
}

// Rescope changes which control groups the processes of a lease are known by.
func (d *Leases) Rescope(ctx context.Context, by Caller, name lease.Name, b api.Rescope) (api.Lease, error) {
	if len(b.Add) > 0 && access.May(by.Actor, access.Scope, access.Object{}) == nil { // the ledger refuses others
		if wrong := d.ledger.ScopeProblem(b.Add); wrong != "" {
			return api.Lease{}, wrongFields(lease.FieldErrors{{Field: "add", Detail: wrong}})
		}
	}
	return by.changed(ctx, func() (*lease.Lease, error) {
		return d.ledger.Rescope(ctx, name, b.Fence, b.Add, b.Remove, by.Actor)
	})
}

// Adopt puts a running process under a lease.
func (d *Leases) Adopt(ctx context.Context, by Caller, b api.Adopt) (api.Lease, error) {
	if b.ID == "" {
		b.ID = madeUp("adopted", 10)
	}
	uuid := ""
	if b.GPU != "" {
		found, err := d.devices.Find(string(b.GPU))
		if err != nil {
			return api.Lease{}, err
		}
		if cut := found.Device.Cut(); cut != "" {
			return api.Lease{}, Refuse(Conflict, "no_fitting_device", "Process %d cannot be adopted on %s: %s.", b.PID, found.Device.Label(), cut)
		}
		uuid = found.Device.UUID
	}
	if bad := words.TextProblem(b.Service); b.Service != "" && bad != "" {
		return api.Lease{}, wrongFields(lease.FieldErrors{{Field: "service", Detail: bad}})
	}
	service, err := by.serving(b.Service)
	if err != nil {
		return api.Lease{}, err
	}
	pid, err := by.here(b.PID)
	if err != nil {
		return api.Lease{}, Refused(err)
	}
	holder, err := d.ledger.HolderOf(pid, by.Actor, lease.Holder{Service: service, PID: by.Holder.PID})
	if err != nil {
		return api.Lease{}, Refused(err)
	}
	return by.changed(ctx, func() (*lease.Lease, error) {
		return d.ledger.Adopt(ctx, ledger.Adoption{ID: b.ID, Holder: holder, GPU: uuid, Memory: b.Memory, By: by.Actor, Limits: d.people.limitsOf(&by, holder)})
	})
}

// Trim asks the holder of a lease to give back the memory that its libraries keep for
// later. It takes nothing away.
func (d *Leases) Trim(by Caller, name lease.Name) (api.Lease, error) {
	held, err := d.held(&by, access.Trim, name, 0)
	if err != nil {
		return api.Lease{}, Refused(err)
	}
	err = d.actOn(&by, access.Trim, held, nil, "", func() error {
		d.publish(lease.TrimEvent(held.Lease, by.Actor, time.Now()))
		return nil
	})
	if err != nil {
		return api.Lease{}, Refused(fmt.Errorf("trim %s: %w", held.ID, err))
	}
	return LeaseOf(held), nil
}

// Explained says what would become of a request.
type Explained struct {
	placement.Explanation
	Grant    *api.Lease    // with what a launcher would get; nil if it would not be granted now
	Estimate *api.Estimate // if it would wait
}

// Explain says what would become of a request, without making it.
func (d *Leases) Explain(by Caller, w api.LeaseRequest) (Explained, error) {
	if len(w.Parts) > 0 || w.Admitted {
		return Explained{}, wrongFields(lease.FieldErrors{{Field: "parts", Detail: "cannot be explained; make the request, which is answered at once"}})
	}
	r, err := d.resolve(&by, &wish{LeaseRequest: w})
	if err != nil {
		return Explained{}, Refused(err)
	}
	e, err := d.ledger.Explain(r.Request)
	if err != nil {
		return Explained{}, Refused(err)
	}
	out := Explained{Explanation: e}
	switch {
	case e.Grant != nil:
		would := LeaseOf(ledger.Held{Lease: e.Grant})
		would.Launch = d.equip.equipment(e.Grant, &r, "")
		out.Grant = &would
	case e.Refusal == nil || e.Refusal.Ever:
		patient := r.Request
		patient.Wait = gpu.Some(lease.MaxWait) // the question is when there will be room, not who waits for it
		out.Estimate = d.foresight.estimateNew(patient)
	}
	return out, nil
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

// held returns the lease that a caller names and may act on. A fence of zero means any.
func (d *Leases) held(by *Caller, verb access.Verb, name lease.Name, fence uint64) (ledger.Held, error) {
	held, err := d.ledger.Held(by.Actor, verb, name)
	if err == nil && fence != 0 && fence != held.Fence {
		err = fmt.Errorf("%s %s: %w: %d; the lease with that id has fence %d", verb, held.ID, lease.ErrStaleFence, fence, held.Fence)
	}
	return held, err
}

// changed changes a lease while the caller stands aside, and returns the lease as the API
// shows it.
func (c *Caller) changed(ctx context.Context, change func() (*lease.Lease, error)) (api.Lease, error) {
	c.aside()
	l, err := change()
	c.back(ctx)
	if err != nil {
		return api.Lease{}, Refused(err)
	}
	return LeaseOf(ledger.Held{Lease: l}), nil
}

// LeaseOf returns a lease as the API shows it.
func LeaseOf(h ledger.Held) api.Lease {
	l := api.Lease{
		ID: h.ID, Parent: h.Parent, Fence: h.Fence, State: string(h.State), Holder: HolderOf(h.Holder), Binding: string(h.Binding),
		Granted: h.Granted, TTL: h.TTL.Seconds(), Parts: make([]api.LeasePart, len(h.Parts)),
		Priority: h.Priority, EnforcedBy: h.EnforcedBy, Note: h.Note, Heir: h.KeptBy,
		Unit: h.Unit, Scope: h.Scope, Parkable: h.Parkable, Unshared: h.Unshared, Optimize: h.Optimize, Asked: h.Asked, Comment: h.Comment, Exclusive: h.Exclusive,
	}
	if h.Pool {
		l.Pool = &api.Pool{Left: h.Parts[0].Memory}
		if use := h.InPool; use != nil {
			l.Pool = &api.Pool{Taken: use.Taken, Left: use.Left(), Leases: use.Leases}
		}
	}
	if h.From != 0 {
		l.FromPool = h.Parent
	}
	if !h.Expires.IsZero() {
		l.Expires = &h.Expires
	}
	if ends, limited := h.Ends(); limited {
		l.TimeLimit, l.Ends, l.Unchosen = h.TimeLimit.Seconds(), &ends, h.Unchosen
	}
	if c := h.Cancelled; c != nil {
		l.Cancelled, l.CancelledBy = &c.At, &api.CancelledBy{By: lease.ByOf(c.By), Why: c.Why}
	}
	for i, p := range h.Parts {
		l.Parts[i] = api.LeasePart{GPU: p.GPU, Memory: p.Memory, Slots: p.Slots}
		if h.Measured != nil {
			l.Parts[i].Measured = h.Measured[i]
		}
	}
	return l
}

// Asked returns a request in the queue in the form of a lease. W is the request as the
// caller may see it.
func Asked(r *lease.Request, w api.Waiting) api.Lease {
	l := api.Lease{
		ID: r.ID, State: "waiting", Holder: w.Holder, Binding: string(r.Binding), TTL: r.TTL.Seconds(),
		Parts: []api.LeasePart{}, Priority: r.Priority, EnforcedBy: "none", Waiting: &w, Exclusive: r.Exclusive,
	}
	if w.Holder == HolderOf(r.Holder) { // the caller may see all of it
		l.Note, l.Comment = r.Note, r.Comment
	}
	return l
}

// WaitingOf returns a request in the queue as the API shows it.
func WaitingOf(r *lease.Request, position int) api.Waiting {
	w := api.Waiting{
		ID: r.ID, Position: position, Since: r.Requested, Holder: HolderOf(r.Holder),
		GPUs: r.GPUs, Memory: r.Memory, Slots: r.Slots, Priority: r.Priority, Exclusive: r.Exclusive, For: r.For(),
	}
	if !r.Patient() {
		w.Deadline = &r.Deadline
	}
	return w
}

// BelongingOf returns the processes of a lease as the API shows them.
func BelongingOf(processes []ledger.Process) []api.Belonging {
	var list []api.Belonging
	for _, p := range processes {
		list = append(list, api.Belonging{GPU: p.GPU, PID: p.Line[0].PID, Name: p.Name, Memory: p.Memory, Evidence: string(p.By)})
	}
	return list
}

// keyOf returns the key of a lease that LeaseOf made.
func keyOf(l *api.Lease) lease.Key {
	h := lease.Holder{UID: l.Holder.UID.Or(lease.NoUID), User: l.Holder.User}
	return lease.Key{Owner: h.Owner(), ID: l.ID}
}

// HolderOf returns a holder as the API shows it.
func HolderOf(h lease.Holder) api.Holder {
	out := api.Holder{Service: h.Service, Name: h.Name, User: h.User, PID: h.PID}
	if h.UID != lease.NoUID {
		out.UID = gpu.Some(h.UID)
	}
	return out
}

// RankedOf returns the rank of a device for a request as the API shows it.
func RankedOf(p placement.Place) api.Ranked {
	u := &p.Use
	r := api.Ranked{
		GPU: p.GPU, Index: p.Index, Rank: p.Rank, Preferred: p.Preferred, Replicas: p.Replicas,
		Active: u.Active, Usable: u.Usable, Available: u.Available, State: u.State,
	}
	if load := u.Recent.Load; load.Known() {
		r.Utilization = gpu.Some(gpu.Percent(tenths(load.Mean)))
	}
	if heat := u.Recent.Heat; heat.Known() {
		r.Temperature = gpu.Some(gpu.Celsius(tenths(heat.Mean)))
	}
	if settles, known := p.Settles.Get(); known {
		r.Settles = gpu.Some(tenth(settles))
	}
	var why []string
	if p.Warm != "" && p.Rank > 0 {
		why = append(why, p.Warm)
	}
	for _, reason := range p.Reasons {
		r.Code = string(p.Reasons[0].Code)
		why = append(why, reason.Text)
	}
	r.Why = strings.Join(why, "; ")
	return r
}

// tenths rounds to one decimal.
func tenths(x float64) float64 { return math.Round(x*10) / 10 }
