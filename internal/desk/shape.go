package desk

import (
	"math"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/placement"
)

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

// tenth rounds a temperature to one decimal.
func tenth(c gpu.Celsius) gpu.Celsius { return gpu.Celsius(tenths(float64(c))) }
