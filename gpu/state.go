package gpu

// State says how hard work may use a device now.
type State string

// The states, from best to worst.
const (
	Optimal     State = "OPTIMAL"
	Normal      State = "NORMAL"
	Throttled   State = "THROTTLED"
	Critical    State = "CRITICAL"
	Unavailable State = "UNAVAILABLE"
)

// States lists the states from best to worst.
func States() []State { return []State{Optimal, Normal, Throttled, Critical, Unavailable} }

// Rank returns a number that grows from best to worst; a word that is not a
// state ranks last.
func (s State) Rank() int {
	for i, known := range States() {
		if s == known {
			return i
		}
	}
	return len(States())
}

// Worse reports whether s is worse than t.
func (s State) Worse(t State) bool { return s.Rank() > t.Rank() }

// Multiplier returns the share of full speed that work on the device should run
// at.
func (s State) Multiplier() float64 {
	switch s {
	case Optimal:
		return 1
	case Normal:
		return 0.8
	case Throttled:
		return 0.5
	}
	return 0
}

// Health has three values: a device that did not answer is neither healthy nor
// unhealthy.
type Health string

// The answers.
const (
	Healthy       Health = "healthy"
	Unhealthy     Health = "unhealthy"
	HealthUnknown Health = "unknown"
)

// The causes of the state of a device. Only the first two follow from what is
// measured.
const (
	CauseTemperature = "temperature" // it is above a threshold, or was a moment ago
	CauseMemory      = "memory"      // the share of memory in use is above a threshold, or was a moment ago
	CauseFault       = "fault"       // the device, or the one that it is part of, is in quarantine
	CauseLost        = "lost"        // it is not on the bus any more
	CauseSilent      = "silent"      // it does not answer, or was not asked yet
)
