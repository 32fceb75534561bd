package quota

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/text/words"
	"github.com/berth-gpu/berth/internal/when/later"
)

// Service has the settings of a service. The zero value sets nothing.
type Service struct {
	Name      string
	MinMemory gpu.MiB     // a request for less is raised to it; zero means none
	MaxMemory gpu.MiB     // a request for more is refused; zero means none
	Priority  int         // the priority of its requests, and the most they can ask for
	Quota     lease.Usage // the most it may have in use at a time; zero means no quota
	Users     []string    // who may ask in its name; empty means everybody
	Together  bool        // its leases go on one device rather than on different ones

	// Nameless reports whether the user database has said that a user has no name; nil if it is
	// not asked.
	Nameless func(uid int) bool

	Parkable   gpu.Opt[bool] // whether its leases may be parked; absent means as the request says
	Unshared   bool          // whether the processes of a lease share no GPU memory
	Shrinkable bool          // whether berth may shrink its leases to what they use
}

// The reasons why the settings of a service refuse a request. Errors of Admit
// wrap one of these.
var (
	ErrService   = errors.New("the service is not configured")
	ErrAlike     = errors.New("the service is taken for a configured one")
	ErrUser      = errors.New("the user may not use this service")
	ErrUnnamed   = errors.New("the user database has not said who asks")
	ErrMaxMemory = errors.New("it is more than the service may have at once")
	ErrMinMemory = errors.New("it is less than the service needs")
	ErrQuota     = errors.New("it is over the quota of the service")
)

// ErrForbidden refuses to park or to shrink a lease.
var ErrForbidden = errors.New("its service does not allow it")

// AdmitError reports that the settings of a service refuse a request.
type AdmitError struct {
	Service string
	Err     error  // ErrService, ErrAlike, ErrUser, ErrUnnamed, ErrMaxMemory, ErrMinMemory or ErrQuota
	Text    string // empty if the numbers say it

	// Later is true if the request may be admitted once the service has released
	// something. Then the request may wait.
	Later bool

	Asked, Limit, InUse lease.Usage // the numbers that Err compares
}

func (e *AdmitError) Error() string {
	return fmt.Sprintf("service %s: %s", e.Service, cmp.Or(e.Text, e.overQuota()))
}

// overQuota says how a request is over the quota.
func (e *AdmitError) overQuota() string {
	total, q, used := e.Asked, e.Limit, e.InUse
	switch {
	case q.Memory > 0 && total.Memory > q.Memory:
		return fmt.Sprintf("%s is more than its whole quota of %s", total.Memory.ExactBeside(q.Memory), q.Memory.ExactBeside(total.Memory))
	case q.Slots > 0 && total.Slots > q.Slots:
		return fmt.Sprintf("%d slots are more than its whole quota of %d", total.Slots, q.Slots)
	case q.Memory > 0 && used.Memory+total.Memory > q.Memory:
		return fmt.Sprintf("%s of its quota of %s are in use, and the request is for %s", used.Memory.ExactBeside(q.Memory, total.Memory), q.Memory.ExactBeside(used.Memory, total.Memory), total.Memory.ExactBeside(used.Memory, q.Memory))
	}
	return fmt.Sprintf("%d of its quota of %d slots are in use, and the request is for %d", used.Slots, q.Slots, total.Slots)
}

func (e *AdmitError) Unwrap() error { return e.Err }

// Admit applies the settings of a service to a request that Validate accepts. It
// returns the request raised to the minimum, with the priority of the service,
// and with a note that says what changed. Used is what the service has in use.
func Admit(s Service, r lease.Request, used lease.Usage) (lease.Request, error) {
	if err := s.Serves(r.Holder); err != nil {
		return r, err
	}
	if s.MaxMemory > 0 && r.Memory > s.MaxMemory {
		return r, &AdmitError{
			Service: s.Name, Err: ErrMaxMemory, Asked: lease.Usage{Memory: r.Memory}, Limit: lease.Usage{Memory: s.MaxMemory},
			Text: fmt.Sprintf("%s is more than its max_memory_mb of %s", r.Memory.ExactBeside(s.MaxMemory), s.MaxMemory.ExactBeside(r.Memory)),
		}
	}
	if r.Memory < s.MinMemory {
		r.AddNote("raised from %s to the service's minimum of %s", r.Memory.ExactBeside(s.MinMemory), s.MinMemory.ExactBeside(r.Memory))
		r.Memory, r.Raised = s.MinMemory, true
	}
	r.Least = max(r.Least, s.MinMemory)
	if r.Priority = r.AskedPriority.Or(s.Priority); r.Priority > s.Priority {
		r.AddNote("priority lowered from %d to the service's %d", r.Priority, s.Priority)
		r.Priority = s.Priority
	}
	if r.Together = s.Together; !r.Pool { // berth parks no pool
		r.Parkable = s.Parkable.Or(r.Parkable)
	}
	return r, WithinQuota(s, &r, used)
}

// Serves returns an error if a user may not ask in the name of the service. The error passes
// for a user who has the user id for a name, unless the user database knows no other.
func (s *Service) Serves(h lease.Holder) error {
	user := h.User
	switch {
	case len(s.Users) == 0 || slices.Contains(s.Users, user):
		return nil
	case h.UID != lease.NoUID && user == strconv.Itoa(h.UID) && (s.Nameless == nil || !s.Nameless(h.UID)):
		return later.Because(&AdmitError{
			Service: s.Name, Err: ErrUnnamed,
			Text: fmt.Sprintf("its users are %s, and the user database has not said who user %s is", strings.Join(s.Users, ", "), user),
		}, 0)
	}
	return &AdmitError{
		Service: s.Name, Err: ErrUser,
		Text: fmt.Sprintf("user %s is not one of its users (%s)", user, strings.Join(s.Users, ", ")),
	}
}

// WithoutPrecedence returns a request with a priority of zero at most. It is for
// requests without a configured service, which would otherwise all ask to be first.
func WithoutPrecedence(r lease.Request) lease.Request {
	if r.Priority > 0 {
		r.AddNote("priority lowered from %d to 0: only a configured service or an operator goes before others", r.Priority)
		r.Priority = 0
	}
	return r
}

// WithinQuota refuses a request that would take a service over its quota. The
// ledger checks a waiting request again each time before it grants it.
func WithinQuota(s Service, r *lease.Request, used lease.Usage) error {
	total, q := r.Total(), s.Quota
	never := q.Memory > 0 && total.Memory > q.Memory || q.Slots > 0 && total.Slots > q.Slots
	if !never && (q.Memory <= 0 || used.Memory+total.Memory <= q.Memory) && (q.Slots <= 0 || used.Slots+total.Slots <= q.Slots) {
		return nil
	}
	return &AdmitError{Service: s.Name, Err: ErrQuota, Later: !never, Asked: total, Limit: q, InUse: used}
}

// Within returns how much of amount on each device the service may have beside used; zero
// if nothing.
func (s *Service) Within(gpus int, amount gpu.MiB, used lease.Usage) gpu.MiB {
	if s.MaxMemory > 0 {
		amount = min(amount, s.MaxMemory)
	}
	if s.Quota.Memory > 0 {
		amount = min(amount, (s.Quota.Memory-used.Memory)/gpu.MiB(gpus))
	}
	if amount < max(s.MinMemory, 1) {
		return 0
	}
	return amount
}

// Later reports whether a request that was refused may be admitted later, once its
// service or its user has released something.
func Later(err error) bool {
	refused, limit := (*AdmitError)(nil), (*LimitError)(nil)
	return errors.As(err, &refused) && refused.Later || errors.As(err, &limit) && limit.Later
}

// MayPark returns an error if the service does not allow parking its leases.
func (s *Service) MayPark(l *lease.Lease) error {
	if !s.Parkable.Or(true) {
		return s.forbids("park", "parkable is false", l)
	}
	return nil
}

// ParksItself reports whether berth may park a lease of the service by itself.
func (s *Service) ParksItself(l *lease.Lease) bool {
	return s.Parkable.Or(l.Parkable) && l.Unparkable() == nil
}

// SharesNothing reports whether the owner of a lease or the settings of the service
// say that its processes share no GPU memory.
func (s *Service) SharesNothing(l *lease.Lease) bool { return s.Unshared || l.Unshared }

// MayShrink returns an error if the service does not allow shrinking its leases.
func (s *Service) MayShrink(l *lease.Lease) error {
	if !s.Shrinkable && len(l.Scope) == 0 || !l.Allows(lease.MayShrink) {
		return s.forbids("shrink", "shrinkable is not true", l)
	}
	return nil
}

// forbids returns the error that a setting of a service forbids something. How says
// which setting, and what it is.
func (s *Service) forbids(what, how string, l *lease.Lease) error {
	name := l.Holder.Service
	if name == "" {
		return fmt.Errorf("%s %s: %w: it has no service", what, l.ID, ErrForbidden)
	}
	return fmt.Errorf("%s %s: %w: services.%s.%s", what, l.ID, ErrForbidden, name, how)
}

// NamedAfter reports whether an id is the name of a service, or that and a number. A
// client that has a lease with another id has asked for that id.
func NamedAfter(id, service string) bool {
	id = words.Service(id)
	number, numbered := strings.CutPrefix(id, service+"-")
	_, err := strconv.ParseUint(number, 10, 32)
	return id == service || numbered && err == nil
}

// Answers reports whether a lease is what a request asks for, whatever its size
// and its id. What is for a run answers nobody else.
func Answers(l *lease.Lease, r *lease.Request) bool {
	switch {
	case l.Run != r.Run, !l.Holder.Same(r.Holder), l.Holder.Service != r.Holder.Service, l.Binding != r.Binding, l.Unit != r.Unit, len(l.Scope) > 0:
		return false
	case r.Binding == lease.ByProcess && (l.Holder.Boot != r.Holder.Boot || l.Holder.PID != r.Holder.PID || l.Holder.Start != r.Holder.Start):
		return false
	case len(l.Parts) != r.GPUs || l.Parts[0].Slots != r.Slots || l.Exclusive != r.Exclusive || l.Pool != r.Pool:
		return false
	}
	return r.Where.GPU == "" || l.Parts[0].GPU == r.Where.GPU
}
