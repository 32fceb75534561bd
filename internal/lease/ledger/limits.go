package ledger

import (
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// limitsOf returns the limits of the holder of a request, as configured now, or nil if
// the actor may exceed them. The caller holds mu.
func (s *state) limitsOf(r *lease.Request) *lease.Limits {
	by := &r.By
	if r.Into != 0 && by.Door == access.Itself { // berth asks for the holder
		by = &access.Actor{}
	}
	return s.settings.Limits.For(r.Holder, r.Limits, by)
}

// overLimit returns why the limits of its user, or of a group of the user, forbid
// granting a request, or nil if they do not. The caller holds mu.
func (s *state) overLimit(r *lease.Request, before *placement.Ahead) error {
	limits := s.limitsOf(r)
	if limits == nil {
		return nil
	}
	more := r.Total()
	if r.Parent != "" && (s.splits(r) || s.poolOf(r) != nil) {
		more = lease.Usage{} // it takes what its parent has
	}
	leases := 1
	if s.grows(r) {
		leases = 0
	}
	err := quota.Within(s.book, limits, r.Holder, more, leases)
	if err == nil && leases > 0 {
		err = quota.WithinGPUs(s.book, limits, r)
	}
	if err != nil {
		return err
	}
	if own := lease.UserLimit(r.Holder.Owner()); before.WaitsFor(own) != nil {
		return quota.WaitAhead(before.WaitsFor(own), own)
	}
	for i := range limits.Together {
		if of := lease.GroupLimit(limits.Together[i].Group); before.WaitsFor(of) != nil {
			return quota.WaitAhead(before.WaitsFor(of), of)
		}
	}
	return nil
}

// grows reports whether a request is for more of an existing lease. The caller holds mu.
func (s *state) grows(r *lease.Request) bool {
	return s.book.Lease(r.Key()) != nil
}

// UserLimits has the limits and the present usage of a user.
type UserLimits struct {
	*lease.Limits
	Has      lease.Count
	Together []lease.Count // usage of the groups, in the order of Limits.Together
}

// Usage returns the present usage of the user and the groups that limits are for.
func (l *Ledger) Usage(limits *lease.Limits) UserLimits {
	l.mu.RLock()
	defer l.mu.RUnlock()
	u := UserLimits{Limits: limits, Has: l.book.UserCount(limits.Subject.Owner)}
	for i := range limits.Together {
		u.Together = append(u.Together, l.book.GroupCount(limits.Together[i].Group))
	}
	return u
}

// limits implements placement.Limits with quotas, the limits of users, and parents. Its
// methods are not those of state, because the ledger would have them too.
type limits struct{ of *state }

// Lacking returns the quota or the limit that forbids granting a request behind those
// ahead.
func (l limits) Lacking(r *lease.Request) (lease.Allowance, bool) {
	if l.of.unaudited(r) {
		return lease.AuditLog(), true
	}
	if err := l.of.overQuota(r, &l.of.ahead); err != nil {
		return quota.Lacking(r, err), true
	}
	return lease.Allowance{}, false
}

// unaudited reports whether the grant of a waiting request has to be written to the audit
// log, which takes nothing now. The caller holds mu.
func (s *state) unaudited(r *lease.Request) bool { return s.unwritten && len(r.Scope) > 0 }

// MayLack reports whether a quota or a limit may forbid granting a request for at most
// this much. If one does, all requests of the service, or of the user, further back are
// stuck behind that one.
func (l limits) MayLack(r *lease.Request, total lease.Usage) bool {
	if quota.Within(l.of.book, l.of.limitsOf(r), r.Holder, total, 0) != nil {
		return true
	}
	most, used := l.of.settings.Services[r.Holder.Service].Quota, l.of.book.ServiceUsage(r.Holder.Service)
	return most.Memory > 0 && used.Memory+total.Memory > most.Memory || most.Slots > 0 && used.Slots+total.Slots > most.Slots
}

// MaySplit reports whether a request may get its memory from its parent.
func (l limits) MaySplit(r *lease.Request, least lease.Load) bool {
	return least.Slots == 0 && l.of.book.CanSplit(l.of.parentOf(r), least.Memory)
}

// Passes reports whether others may pass a request whose start is not known.
func (l limits) Passes() bool { return l.of.settings.Pass }

// front starts at the front of the queue, for questions about requests for at least this
// load on a device. The caller holds mu.
func (s *state) front(least lease.Load) *placement.Ahead {
	s.ahead.Begin(s.snapshot, s.book, limits{s}, least)
	return &s.ahead
}

// aheadOf returns the requests ahead of a request, or the whole queue if the request does
// not wait. The result tells whether the request can be granted. It is valid until the
// next call of front, or until something changes. The caller holds mu.
func (s *state) aheadOf(r *lease.Request) *placement.Ahead {
	n := s.front(r.Load())
	for n.Open() && n.Before(r) {
		n.Join()
	}
	return n
}

// adviceBefore returns the requests ahead like aheadOf. The result also tells how much
// the request could have, and why not more. The caller holds mu.
func (s *state) adviceBefore(r *lease.Request) *placement.Ahead {
	n := s.front(leastAdvice(r))
	advance(n, r)
	return n
}

// leastAdvice returns the smallest load that advice about a request asks about.
func leastAdvice(r *lease.Request) lease.Load {
	return lease.Load{Memory: min(r.Memory, 1), Slots: r.Slots}
}

// advance joins every request that is before r.
func advance(n *placement.Ahead, r *lease.Request) {
	for n.Before(r) {
		n.Join()
	}
}
