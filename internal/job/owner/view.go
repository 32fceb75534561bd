package owner

import (
	"cmp"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/job/service"
	"github.com/berth-gpu/berth/internal/lease"
)

// List returns all services, in the order of their names.
func (o *Owner) List() []api.Service {
	o.mu.RLock()
	names := o.names()
	o.mu.RUnlock()
	list := make([]api.Service, 0, len(names))
	for _, name := range names {
		if s, found := o.Find(name); found {
			list = append(list, s)
		}
	}
	return list
}

// Find returns a service.
func (o *Owner) Find(name string) (api.Service, bool) {
	o.mu.RLock()
	s := o.services[name]
	if s == nil {
		o.mu.RUnlock()
		return api.Service{}, false
	}
	v, life := o.view(s), s.life
	o.mu.RUnlock()
	select {
	case <-o.begun:
	default:
		return v, true
	}
	if life.State == service.Serving { // nobody waits for the desk while mu is held
		way, why := service.Choose(&life.Instance.Spec, &life.Took, o.leases.Parkable(keyOf(life.Instance), life.Instance.Fence), life.Trouble, time.Now())
		v.Goes, v.GoesWhy = string(way), why
	}
	return v, true
}

// view returns a service as people see it. The caller holds mu.
func (o *Owner) view(s *owned) api.Service {
	l, spec := &s.life, s.spec
	if l.Instance != nil {
		spec = &l.Instance.Spec // what runs
	}
	v := api.Service{
		Name: s.name, State: string(l.State), Since: l.Since, Why: l.Why, Waiting: len(s.waiters), LastAnswer: s.last,
		Requests: s.sum.Requests, Failed: s.sum.Failed, Refused: s.sum.Refused, TokensIn: s.sum.TokensIn, TokensOut: s.sum.TokensOut,
		Switches: l.Switches, Took: l.Took, Stopped: l.Stopped, Log: l.Log,
	}
	if l.State == service.Failed || l.Instance != nil && l.Instance.Failed || l.State != service.Serving && l.Failures > 0 {
		v.Failure = l.Failure
	}
	if l.Instance == nil && spec != nil && spec.UID < 0 {
		v.Why = noUser(spec)
	}
	switch {
	case s.unready != "" && l.State == service.Starting:
		v.Why = "its program waits to be started: " + s.unready
	case s.unready != "":
		v.Why = "berth tries again: " + s.unready
	}
	if l.Stopped != nil && (l.State == service.Away || l.State == service.Failed) {
		v.State, v.Since = "stopped", l.Stopped.At
	}
	waiting := 0
	for _, f := range o.fronts {
		v.Open += f.open[s.name].Open
		waiting += f.open[s.name].Waiting
	}
	v.Waiting = max(v.Waiting, waiting)
	v.Callers = o.callers(s, time.Now())
	if spec != nil {
		v.Models, v.User, v.Start, v.Away, v.Memory = spec.Models, spec.User, string(spec.Start), string(spec.Away), spec.Memory
		v.Command, v.Directory = spec.Command, spec.Directory
	}
	if i := l.Instance; i != nil {
		v.Learned, v.Devices, v.Port, v.PID, v.Log = i.Learned, i.Devices, i.Port, i.PID, cmp.Or(i.Log, l.Log)
		if i.Fence != 0 {
			v.Lease = i.LeaseID()
		}
		if i.Memory > 0 {
			v.Memory = gpu.Some(i.Memory)
		}
	}
	return v
}

// serviceOf returns the service whose instance has a lease, or asks for it; nil: none. The
// caller decides, or holds mu.
func (o *Owner) serviceOf(k lease.Key) *owned {
	for _, s := range o.services {
		if i := s.life.Instance; i != nil && keyOf(i) == k {
			return s
		}
	}
	return nil
}

// holding returns the service whose lease has a fence, or nil. The ledger may not know yet
// that a lease which an earlier berth has granted is that of a service.
func (o *Owner) holding(fence uint64) *owned {
	for _, s := range o.services {
		if i := s.life.Instance; i != nil && i.Fence == fence {
			return s
		}
	}
	return nil
}

// KeyOf returns the key of the lease that a service has or waits for; false: it has none.
func (o *Owner) KeyOf(name string) (lease.Key, bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	s := o.services[name]
	if s == nil || s.life.Instance == nil {
		return lease.Key{}, false
	}
	return keyOf(s.life.Instance), true
}

// Moving returns the service whose program has a lease, or "" if it is none of a service,
// and how long the service takes to stop and to start, or 0 if it has not done both.
func (o *Owner) Moving(k lease.Key) (name string, takes time.Duration) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	s := o.serviceOf(k)
	if s == nil {
		return "", 0
	}
	if stop, start := s.life.Took.Stop, s.life.Took.Start; stop.Count > 0 && start.Count > 0 {
		takes = time.Duration((stop.Seconds + start.Seconds) * float64(time.Second))
	}
	return s.name, takes
}

// Use implements mover.Services.
func (o *Owner) Use(k lease.Key, fence uint64) (lease.ProgramUse, bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	s := o.serviceOf(k)
	if s == nil || s.life.Instance.Fence != 0 && s.life.Instance.Fence != fence {
		return lease.ProgramUse{}, false
	}
	l := &s.life
	switch l.State {
	case service.Waiting, service.Starting:
		return lease.ProgramUse{}, true
	case service.Returning:
		if s.growing { // one before it in the queue may need what it keeps while it sleeps
			return lease.ProgramUse{Since: l.Since, Idle: l.Since}, true
		}
		return lease.ProgramUse{}, true
	case service.Serving:
		at := service.Situation{Waiting: len(s.waiters), Open: o.requests(s.name), Last: s.last, Known: o.known()}
		u := lease.ProgramUse{Since: l.Since, Idle: l.Idle(&at), Barred: l.Barred(), Switch: l.Instance.Spec.Switching(&l.Took)}
		if !at.Known { // nothing is closed before every front has told of its requests
			u.Barred = time.Now().Add(patience)
		}
		return u, true
	case service.Parked, service.Asleep:
		return lease.ProgramUse{Since: l.Since, Idle: l.Since}, true
	}
	return lease.ProgramUse{Since: l.Since, Leaves: true}, true
}

// Away implements mover.Services. It does not wait.
func (o *Owner) Away(k lease.Key, fence uint64, wanter lease.Key, why string) {
	o.runs.Send(sent{k, fence, wanter, why})
}

// sendAway sends a service away whose room others need.
func (o *Owner) sendAway(a sent) {
	s := o.serviceOf(a.key)
	if s == nil || s.life.Instance.Fence != a.fence {
		return
	}
	s.sentFor = a.wanter
	switch s.life.State {
	case service.Returning:
		// The ledger may have given it its memory, and the owner not have heard of it.
		if i := s.life.Instance; s.growing && o.leases.Size(a.key, a.fence) < i.Memory {
			_ = o.happen(s, service.Leave, service.Facts{}, leaves(service.ForOthers, a.why))
		}
	case service.Serving, service.Parked, service.Asleep:
		if o.known() {
			_ = o.happen(s, service.Leave, service.Facts{}, leaves(service.ForOthers, a.why))
		}
	case service.Closing: // it was idle; now it goes whoever asks for it
		if s.life.Instance.For == service.ForIdle {
			_ = o.alter(s, leaves(service.ForOthers, a.why))
		}
	}
}
