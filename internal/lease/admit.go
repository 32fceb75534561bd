package lease

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/gpu"
)

// Service is what is set for a service. The zero value sets nothing.
type Service struct {
	Name      string
	MinMemory gpu.MiB  // a request for less is raised to it; zero: none
	MaxMemory gpu.MiB  // a request for more is refused; zero: none
	Priority  int      // what its requests have, and the most they can have
	Quota     Usage    // the most it can have in use at a time; zero: no quota
	Users     []string // who may ask in its name; empty: everybody
}

// Why a service's settings refuse a request. Errors of Admit wrap one of these.
var (
	ErrUser      = errors.New("the user may not use this service")
	ErrMaxMemory = errors.New("it is more than the service may have at once")
	ErrQuota     = errors.New("it is over the quota of the service")
)

// AdmitError is a request that the settings of a service refuse.
type AdmitError struct {
	Service string
	Err     error // ErrUser, ErrMaxMemory or ErrQuota
	Text    string

	// Later is whether the request could be admitted once the service has given
	// something back. It may wait then.
	Later bool

	Asked, Limit, InUse Usage // the numbers behind it
}

func (e *AdmitError) Error() string {
	return fmt.Sprintf("admit a request of service %s: %s", e.Service, e.Text)
}

func (e *AdmitError) Unwrap() error { return e.Err }

// Admit applies the settings of a service to a request that Validate accepts. It
// returns the request as it is to be placed: raised to the minimum, with the
// priority of the service, and with a note of both. Used is what the service has
// in use.
func Admit(s Service, r Request, used Usage) (Request, error) {
	if len(s.Users) > 0 && !slices.Contains(s.Users, r.Holder.User) {
		return r, &AdmitError{
			Service: s.Name, Err: ErrUser,
			Text: fmt.Sprintf("user %s is not one of its users (%s)", r.Holder.User, strings.Join(s.Users, ", ")),
		}
	}
	if s.MaxMemory > 0 && r.Memory > s.MaxMemory {
		return r, &AdmitError{
			Service: s.Name, Err: ErrMaxMemory, Asked: Usage{Memory: r.Memory}, Limit: Usage{Memory: s.MaxMemory},
			Text: fmt.Sprintf("%s is more than its max_memory_mb of %s", r.Memory.Exact(), s.MaxMemory.Exact()),
		}
	}
	if r.Memory < s.MinMemory {
		r.note("raised from %s to the service's minimum of %s", r.Memory.Exact(), s.MinMemory.Exact())
		r.Memory, r.Raised = s.MinMemory, true
	}
	if r.Priority = r.AskedPriority.Or(s.Priority); r.Priority > s.Priority {
		r.note("priority lowered from %d to the service's %d", r.Priority, s.Priority)
		r.Priority = s.Priority
	}
	return r, WithinQuota(s, &r, used)
}

// InLine is a request that goes before nobody: its priority is not above zero.
// It is for those who ask in the name of no service that has settings, because
// they would otherwise all ask to be first.
func InLine(r Request) Request {
	if r.Priority > 0 {
		r.note("priority lowered from %d to 0: only a configured service or an administrator goes before others", r.Priority)
		r.Priority = 0
	}
	return r
}

// WithinQuota refuses a request that would take a service over its quota. A
// waiting request is asked again each time before it is granted.
func WithinQuota(s Service, r *Request, used Usage) error {
	total := r.Total()
	refuse := func(later bool, format string, args ...any) error {
		return &AdmitError{
			Service: s.Name, Err: ErrQuota, Later: later, Text: fmt.Sprintf(format, args...),
			Asked: total, Limit: s.Quota, InUse: used,
		}
	}
	q := s.Quota
	switch {
	case q.Memory > 0 && total.Memory > q.Memory:
		return refuse(false, "%s is more than its whole quota of %s", total.Memory.Exact(), q.Memory.Exact())
	case q.Slots > 0 && total.Slots > q.Slots:
		return refuse(false, "%d slots are more than its whole quota of %d", total.Slots, q.Slots)
	case q.Memory > 0 && used.Memory+total.Memory > q.Memory:
		return refuse(true, "%s of its quota of %s are in use, and %s are asked for", used.Memory.Exact(), q.Memory.Exact(), total.Memory.Exact())
	case q.Slots > 0 && used.Slots+total.Slots > q.Slots:
		return refuse(true, "%d of its quota of %d slots are in use, and %d are asked for", used.Slots, q.Slots, total.Slots)
	}
	return nil
}

func (r *Request) note(format string, args ...any) {
	if r.Note != "" {
		r.Note += "; "
	}
	r.Note += fmt.Sprintf(format, args...)
}
