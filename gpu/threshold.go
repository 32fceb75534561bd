package gpu

import (
	"errors"
	"fmt"
)

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
