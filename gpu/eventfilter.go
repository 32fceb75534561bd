package gpu

import "slices"

// EventFilter chooses events. A field that is empty chooses all of them, so the
// zero filter matches every event.
type EventFilter struct {
	Codes    []EventCode // one of these codes
	GPUs     []string    // about one of these devices
	Leases   []string    // about one of these leases
	Severity Severity    // at least this severity
}

// IsZero reports whether f matches every event.
func (f EventFilter) IsZero() bool {
	return len(f.Codes) == 0 && len(f.GPUs) == 0 && len(f.Leases) == 0 && f.Severity == ""
}

// Matches reports whether f chooses e. A gap matches every filter, because
// nobody knows what the missing events were about.
func (f EventFilter) Matches(e Event) bool {
	return e.Code == EventGap ||
		oneOf(f.Codes, e.Code) && oneOf(f.GPUs, e.GPU) && oneOf(f.Leases, e.Lease) &&
			(f.Severity == "" || e.Severity.AtLeast(f.Severity))
}

func oneOf[T comparable](chosen []T, value T) bool {
	return len(chosen) == 0 || slices.Contains(chosen, value)
}
