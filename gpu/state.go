package gpu

import (
	"errors"
	"fmt"
)

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

// CauseAnnotation is the annotation of an alert rule that names such causes, separated by
// spaces: its alerts and a state with one of these causes are the same fact.
const CauseAnnotation = "cause"

// Thresholds divide temperature and memory use into states. Each is the upper
// end of its state. The tags over, max and above are for package config, which
// names the line where a rule of Validate is broken.
type Thresholds struct {
	TempOptimal    Celsius `json:"temp_optimal" role:"operator" over:"0" max:"150" doc:"Temperature below which a device is OPTIMAL."`
	TempNormal     Celsius `json:"temp_normal" role:"operator" over:"0" max:"150" above:"temp_optimal" doc:"Temperature below which a device is NORMAL."`
	TempThrottle   Celsius `json:"temp_throttle" role:"operator" over:"0" max:"150" above:"temp_normal" doc:"Temperature up to which a device is THROTTLED; above it the device is CRITICAL."`
	TempCritical   Celsius `json:"temp_critical" role:"operator" over:"0" max:"150" above:"temp_throttle" doc:"Temperature above which berth grants nothing and tells holders to stop now."`
	MemoryOptimal  Percent `json:"memory_optimal" role:"operator" over:"0" max:"100" doc:"Share of memory in use below which a device is OPTIMAL."`
	MemoryNormal   Percent `json:"memory_normal" role:"operator" over:"0" max:"100" above:"memory_optimal" doc:"Share of memory in use below which a device is NORMAL."`
	MemoryCritical Percent `json:"memory_critical" role:"operator" over:"0" max:"100" above:"memory_normal" doc:"Share of memory in use up to which a device is THROTTLED; above it the device is CRITICAL."`
}

// DefaultThresholds suit a data-centre card; see the table of states in the
// documentation.
func DefaultThresholds() Thresholds {
	return Thresholds{
		TempOptimal: 65, TempNormal: 75, TempThrottle: 85, TempCritical: 90,
		MemoryOptimal: 70, MemoryNormal: 85, MemoryCritical: 95,
	}
}

// Validate refuses thresholds that are out of order or out of range. It returns all
// complaints at once, each beginning with the field that it is about.
func (t Thresholds) Validate() error {
	var errs []error
	ordered := func(names []string, values []float64, lowest, highest float64) {
		for i, v := range values {
			if !(v > lowest && v <= highest) {
				errs = append(errs, fmt.Errorf("%s: %g is not above %g and at most %g", names[i], v, lowest, highest))
			} else if i > 0 && v <= values[i-1] {
				errs = append(errs, fmt.Errorf("%s: %g must be above %s (%g)", names[i], v, names[i-1], values[i-1]))
			}
		}
	}
	ordered([]string{"temp_optimal", "temp_normal", "temp_throttle", "temp_critical"},
		[]float64{float64(t.TempOptimal), float64(t.TempNormal), float64(t.TempThrottle), float64(t.TempCritical)}, 0, 150)
	ordered([]string{"memory_optimal", "memory_normal", "memory_critical"},
		[]float64{float64(t.MemoryOptimal), float64(t.MemoryNormal), float64(t.MemoryCritical)}, 0, 100)
	return errors.Join(errs...)
}
