package lease

import (
	"errors"

	"github.com/berth-gpu/berth/internal/access"
)

// Regime says what everybody may have. It remembers answers, so it is for one
// goroutine at a time.
type Regime struct {
	// Of returns what somebody may have; nil: what Builtin says.
	Of func(Subject) *Limits
	// Generation tells regimes apart: limits of another one are not valid here.
	Generation uint64

	found map[asked]*Limits
}

// asked is what limits were looked up for: those that a request brought, which
// are of another regime, or a holder.
type asked struct {
	known *Limits
	owner Owner
}

// mostFound is how many limits a regime remembers.
const mostFound = 4096

// For returns the limits of a holder; nil if an actor may exceed them. Known are
// limits that are perhaps the holder's, and perhaps of another regime; nil: none
// are known.
func (r *Regime) For(h Holder, known *Limits, by *access.Actor) *Limits {
	if access.May(*by, access.Exceed, access.Object{}) == nil {
		return nil
	}
	owner := h.Owner()
	subject := Subject{Owner: owner}
	switch {
	case known == nil || known.Subject.Owner != owner:
		known = nil
	case known.Generation == r.Generation:
		return known
	default:
		subject = known.Subject
	}
	key := asked{known, owner}
	if limits := r.found[key]; limits != nil {
		return limits
	}
	if r.found == nil || len(r.found) >= mostFound {
		r.found = map[asked]*Limits{}
	}
	limits := r.of(subject)
	r.found[key] = limits
	return limits
}

func (r *Regime) of(s Subject) *Limits {
	if r.Of != nil {
		return r.Of(s)
	}
	l := Builtin()
	l.Subject, l.Generation = s, r.Generation
	return &l
}

// Allowance is what a request may have to wait for although there is room: the
// quota of its service, or a limit of its user or of a group.
type Allowance struct {
	of      byte
	service string
	user    Owner
	group   string
}

const (
	quotaOfService byte = iota
	limitOfUser
	limitOfGroup
)

// ServiceQuota returns the quota of a service as an allowance.
func ServiceQuota(service string) Allowance {
	return Allowance{of: quotaOfService, service: service}
}

// UserLimit returns the limits of a user as an allowance.
func UserLimit(user Owner) Allowance { return Allowance{of: limitOfUser, user: user} }

// GroupLimit returns the limits of a group as an allowance.
func GroupLimit(group string) Allowance { return Allowance{of: limitOfGroup, group: group} }

// Lacking returns what a request waits for that an AdmitError or a LimitError
// refuses.
func (r *Request) Lacking(err error) Allowance {
	limit := (*LimitError)(nil)
	switch {
	case !errors.As(err, &limit):
		return ServiceQuota(r.Holder.Service)
	case limit.Group != "":
		return GroupLimit(limit.Group)
	}
	return UserLimit(r.Holder.Owner())
}

// WaitAhead refuses a request because another one is ahead of it in the queue and
// waits for an allowance that both need.
func WaitAhead(first *Request, lacks Allowance) *LimitError {
	e := &LimitError{Err: ErrLimit, Group: lacks.group, Later: true, Text: first.ID + " is ahead in the queue and waits for your limits"}
	if lacks.of == limitOfGroup {
		e.Text = first.ID + " is ahead in the queue and waits for the limits of " + lacks.group
	}
	return e
}
