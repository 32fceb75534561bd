package gpu

import "time"

// Event is something that happened.
type Event struct {
	ID       uint64    `json:"id" doc:"Grows with every event, across restarts too."`
	Time     time.Time `json:"time"`
	Code     EventCode `json:"code"`
	Severity Severity  `json:"severity"`
	GPU      string    `json:"gpu,omitempty" doc:"UUID of the device it is about."`
	Lease    string    `json:"lease,omitempty" doc:"Allocation id of the lease it is about."`
	Text     string    `json:"text" doc:"One sentence for people."`
	// Data holds the numbers behind the sentence.
	Data map[string]any `json:"data,omitempty"`
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
	EventMonitoring        EventCode = "monitoring"
	EventConfig            EventCode = "config"
	EventJournal           EventCode = "journal"
	EventPlan              EventCode = "plan"
	EventBatch             EventCode = "batch"
	EventGap               EventCode = "gap"
)

// The codes of what happens to leases.
const (
	EventGranted    EventCode = "lease_granted"
	EventWaiting    EventCode = "lease_waiting"
	EventRenewed    EventCode = "lease_renewed"
	EventReleased   EventCode = "lease_released"
	EventExpired    EventCode = "lease_expired"
	EventRevoked    EventCode = "lease_revoked"
	EventTimedOut   EventCode = "lease_timeout"
	EventOverLimit  EventCode = "lease_over_limit"
	EventForeignUse EventCode = "foreign_use"
)

// Severity says how much an event matters.
type Severity string

// The severities, from least to most.
const (
	Note    Severity = "info"
	Warning Severity = "warning"
	Serious Severity = "critical"
)
