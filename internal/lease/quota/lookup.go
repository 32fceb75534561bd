package quota

import (
	"errors"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
)

// Lookup finds what holders may have. It remembers answers, so it is for one
// goroutine at a time.
type Lookup struct {
	// Of returns what somebody may have; nil means what lease.Builtin says.
	Of func(lease.Subject) *lease.Limits
	// Generation identifies the rules: limits from other rules are not valid here.
	Generation uint64

	found map[asked]*lease.Limits
}

// asked is the key of a remembered answer: the limits that a request brought, which are
// from other rules, or a holder.
type asked struct {
	known *lease.Limits
	owner lease.Owner
}

// mostFound is how many limits a Lookup remembers.
const mostFound = 4096

// For returns the limits of a holder; nil if the actor may exceed them. Known are limits
// that may be the holder's and may be from other rules; nil if none are known.
func (r *Lookup) For(h lease.Holder, known *lease.Limits, by *access.Actor) *lease.Limits {
	if access.May(*by, access.Exceed, access.Object{}) == nil {
		return nil
	}
	owner := h.Owner()
	subject := lease.Subject{Owner: owner}
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
		r.found = map[asked]*lease.Limits{}
	}
	limits := r.of(subject)
	r.found[key] = limits
	return limits
}

func (r *Lookup) of(s lease.Subject) *lease.Limits {
	if r.Of != nil {
		return r.Of(s)
	}
	l := lease.Builtin()
	l.Subject, l.Generation = s, r.Generation
	return &l
}

// Lacking returns the allowance that a request waits for if an AdmitError or a LimitError
// refuses it.
func Lacking(r *lease.Request, err error) lease.Allowance {
	limit := (*LimitError)(nil)
	switch {
	case !errors.As(err, &limit):
		return lease.ServiceQuota(r.Holder.Service)
	case limit.Group != "":
		return lease.GroupLimit(limit.Group)
	}
	return lease.UserLimit(r.Holder.Owner())
}

// WaitAhead refuses a request because another one is ahead of it in the queue and
// waits for an allowance that both need.
func WaitAhead(first *lease.Request, lacks lease.Allowance) *LimitError {
	e := &LimitError{Err: ErrLimit, Group: lacks.Group, Later: true, Text: first.ID + " is ahead in the queue and waits for your limits"}
	if lacks.Group != "" {
		e.Text = first.ID + " is ahead in the queue and waits for the limits of " + lacks.Group
	}
	return e
}
