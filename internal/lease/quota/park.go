package quota

import (
	"fmt"

	"github.com/berth-gpu/berth/internal/lease"
)

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
	if !s.Shrinkable {
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
