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
	if r.Parent != "" && s.splits(r) {
		more = lease.Usage{} // it takes what its parent has
	}
	err := quota.Within(s.book, limits, r.Holder, more, 1)
	if err != nil && s.grows(r) {
		err = quota.Within(s.book, limits, r.Holder, more, 0)
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
