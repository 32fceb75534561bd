package gpu

import (
	"slices"
	"strings"
	"time"
)

// Event is something that happened.
type Event struct {
	ID   uint64    `json:"id" doc:"Grows with every event, across restarts too."`
	Time time.Time `json:"time"`
	Code EventCode `json:"code"`
	// Also has the codes of what happened with it, in the same moment and for the same
	// reason. Whoever asks for one of them gets the event.
	Also     []EventCode `json:"also,omitempty" doc:"Codes of what this means at the same time: a device that becomes CRITICAL must slow down too. Filters and hooks that name one of them choose the event."`
	Severity Severity    `json:"severity"`
	GPU      string      `json:"gpu,omitempty" doc:"UUID of the device it is about."`
	Lease    string      `json:"lease,omitempty" doc:"Allocation id of the lease it is about."`
	User     string      `json:"user,omitempty" doc:"Whose lease, batch, plan or process it is about."`
	By       By          `json:"by,omitzero" doc:"Who did it. Absent: the daemon did it by itself."`
	Text     string      `json:"text" doc:"One sentence for people."`
	// Public is the sentence for readers who are neither that user nor an administrator.
	// It names no program, path or process. It is empty if Text names none either.
	Public string `json:"-"`
	// Data holds the numbers behind the sentence.
	Data map[string]any `json:"data,omitempty"`
}

// Is reports whether one of the codes is that of the event, or of what happened with it.
func (e *Event) Is(codes ...EventCode) bool {
	return slices.Contains(codes, e.Code) || slices.ContainsFunc(e.Also, func(c EventCode) bool { return slices.Contains(codes, c) })
}

// ConcernsGrant reports whether the event may be about the lease with this id and fence,
// rather than about another lease with the same id: an earlier one, or one of another
// user. Some events do not say which.
func (e *Event) ConcernsGrant(id string, fence uint64) bool {
	if e.Lease != id {
		return false
	}
	switch said := e.Data["fence"].(type) {
	case uint64:
		return said == fence
	case float64: // as JSON gives it
		return uint64(said) == fence
	}
	return true
}

// By says who did something. The zero value is the daemon itself.
type By struct {
	User  string   `json:"user,omitempty" doc:"Login name; token for one who showed a token."`
	UID   Opt[int] `json:"uid,omitzero" doc:"Absent: the kernel did not say."`
	Token string   `json:"token,omitempty" doc:"Name of the token that was shown."`
	Door  string   `json:"door,omitempty" enum:"socket,tcp,process" doc:"The way it was asked for: over the Unix socket, over TCP, or within the process of the daemon."`
	Agent string   `json:"agent,omitempty" doc:"The program that asked in the name of the user, as it calls itself."`
}

// Equal reports whether b and other are the same.
func (b By) Equal(other By) bool { return b == other }

// String returns who it is in a few words for people.
func (b By) String() string {
	switch {
	case b == By{}:
		return "berth"
	case b.Token != "":
		return "token " + b.Token
	case b.User == "":
		return "somebody"
	case b.Agent != "":
		return b.User + " through " + b.Agent
	}
	return b.User
}

// EventCode names a kind of event; codes are stable.
type EventCode string

// The codes of what devices do.
const (
	EventStateChange       EventCode = "state_change"
	EventThrottle          EventCode = "throttle"
	EventResume            EventCode = "resume"
	EventCritical          EventCode = "critical"
	EventOverheat          EventCode = "overheat"
	EventDeviceFound       EventCode = "device_found"
	EventDeviceLost        EventCode = "device_lost"
	EventDeviceRecovered   EventCode = "device_recovered"
	EventDeviceFault       EventCode = "device_fault"
	EventDeviceQuarantined EventCode = "device_quarantined"
	EventDeviceProbation   EventCode = "device_probation"
	EventSlots             EventCode = "slots_changed"
	EventForecast          EventCode = "forecast"
	EventPowerLimit        EventCode = "power_limit"
	EventFan               EventCode = "fan"
	EventCheck             EventCode = "device_check"
	EventDrained           EventCode = "device_drained"
	EventUndrained         EventCode = "device_undrained"
	EventScrub             EventCode = "scrub"
	EventMonitoring        EventCode = "monitoring"
	EventConfig            EventCode = "config"
	EventJournal           EventCode = "journal"
	EventAudit             EventCode = "audit"
	EventInternalFault     EventCode = "internal_fault"
	EventPlan              EventCode = "plan"
	EventBatch             EventCode = "batch"
	EventHook              EventCode = "hook"
	EventAlert             EventCode = "alert"
	EventAlertResolved     EventCode = "alert_resolved"
	EventAlertAcknowledged EventCode = "alert_acknowledged"
	EventRules             EventCode = "rules"
	EventPast              EventCode = "past"
	EventStateDamaged      EventCode = "state_damaged"
	EventRationed          EventCode = "rationed"
	EventListen            EventCode = "listen"
	EventGap               EventCode = "gap"
)

// The codes of what happens to leases.
const (
	EventGranted    EventCode = "lease_granted"
	EventWaiting    EventCode = "lease_waiting"
	EventRenewed    EventCode = "lease_renewed"
	EventBound      EventCode = "lease_bound"
	EventResized    EventCode = "lease_resized"
	EventReleased   EventCode = "lease_released"
	EventEnding     EventCode = "lease_ending"
	EventExpired    EventCode = "lease_expired"
	EventRevoked    EventCode = "lease_revoked"
	EventTimedOut   EventCode = "lease_timeout"
	EventOverLimit  EventCode = "lease_over_limit"
	EventStop       EventCode = "lease_stop"
	EventStopped    EventCode = "lease_stopped"
	EventPaced      EventCode = "lease_paced"
	EventParking    EventCode = "lease_parking"
	EventParked     EventCode = "lease_parked"
	EventResuming   EventCode = "lease_resuming"
	EventResumed    EventCode = "lease_resumed"
	EventIdle       EventCode = "lease_idle"
	EventReclaim    EventCode = "reclaim"
	EventOptimized  EventCode = "optimized"
	EventForeignUse EventCode = "foreign_use"
)

// The codes of what happens to jobs.
const (
	EventJobSubmitted EventCode = "job_submitted"
	EventJobStarted   EventCode = "job_started"
	EventJobEnded     EventCode = "job_ended"
)

// The codes of what happens to services whose programs berth runs.
const (
	EventServiceReady   EventCode = "service_ready"
	EventServiceLeft    EventCode = "service_left"
	EventServiceFailed  EventCode = "service_failed"
	EventServiceOrdered EventCode = "service_ordered"
	EventServiceCut     EventCode = "service_cut"
	EventFront          EventCode = "front"
)

// EventCodes lists every code, in the order above.
func EventCodes() []EventCode {
	return []EventCode{
		EventStateChange, EventThrottle, EventResume, EventCritical, EventOverheat,
		EventDeviceFound, EventDeviceLost, EventDeviceRecovered, EventDeviceFault, EventDeviceQuarantined, EventDeviceProbation, EventSlots,
		EventForecast, EventPowerLimit, EventFan, EventCheck, EventDrained, EventUndrained, EventScrub,
		EventMonitoring, EventConfig, EventJournal, EventAudit, EventInternalFault, EventPlan, EventBatch, EventHook, EventAlert, EventAlertResolved, EventAlertAcknowledged, EventRules, EventPast, EventStateDamaged, EventRationed, EventListen, EventGap,
		EventGranted, EventWaiting, EventRenewed, EventBound, EventResized, EventReleased, EventEnding, EventExpired, EventRevoked, EventTimedOut, EventOverLimit, EventStop, EventStopped, EventPaced,
		EventParking, EventParked, EventResuming, EventResumed, EventIdle, EventReclaim, EventOptimized, EventForeignUse,
		EventJobSubmitted, EventJobStarted, EventJobEnded,
		EventServiceReady, EventServiceLeft, EventServiceFailed, EventServiceOrdered, EventServiceCut, EventFront,
	}
}

// Severity says how much an event matters.
type Severity string

// The severities, from least to most.
const (
	Note    Severity = "info"
	Warning Severity = "warning"
	Serious Severity = "critical"
)

// AtLeast reports whether s matters as much as other, or more.
func (s Severity) AtLeast(other Severity) bool {
	order := []Severity{Note, Warning, Serious}
	return slices.Index(order, s) >= slices.Index(order, other)
}

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
		(len(f.Codes) == 0 || e.Is(f.Codes...)) && oneOf(f.GPUs, e.GPU) && f.about(&e) &&
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
