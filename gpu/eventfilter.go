package gpu

import (
	"slices"
	"strings"
)

// EventFilter chooses events. An empty field chooses all events, so the zero filter
// matches every event.
type EventFilter struct {
	Codes    []EventCode // one of these codes
	GPUs     []string    // about one of these devices
	Leases   []string    // about one of these leases, by ID or USER/ID
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
		oneOf(f.Codes, e.Code) && oneOf(f.GPUs, e.GPU) && f.about(&e) &&
			(f.Severity == "" || e.Severity.AtLeast(f.Severity))
}

// about reports whether e is about one of the chosen leases.
func (f EventFilter) about(e *Event) bool {
	return oneOf(f.Leases, e.Lease) || slices.ContainsFunc(f.Leases, func(name string) bool {
		id, found := strings.CutPrefix(name, e.User+"/")
		return found && id == e.Lease && e.User != "" && id != ""
	})
}

func oneOf[T comparable](chosen []T, value T) bool {
	return len(chosen) == 0 || slices.Contains(chosen, value)
}
