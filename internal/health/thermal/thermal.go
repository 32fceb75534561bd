// Package thermal judges devices: which state a sample means, how long a device stays in
// a state after its readings got better, how its temperature changed, and what follows
// from a forecast.
//
// It only computes: samples and times come in as arguments, verdicts go out.
//
// Pure: no clock, no I/O.
package thermal

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Rules says how to judge one device.
type Rules struct {
	gpu.Thresholds
	Cooldown      time.Duration // how long readings must stay better before the state follows
	CriticalPause time.Duration // the same for leaving CRITICAL; Cooldown if that is longer
	Steps         bool          // whether a device that leaves THROTTLED is NORMAL for a cooldown before it is OPTIMAL
	Forecast      bool          // whether work slows down before a threshold is crossed
}

// DefaultRules returns the rules without configuration.
func DefaultRules() Rules {
	return Rules{
		Thresholds:    gpu.DefaultThresholds(),
		Cooldown:      30 * time.Second,
		CriticalPause: 60 * time.Second,
		Steps:         true,
		Forecast:      true,
	}
}

// hold returns how long readings must have been better before a device leaves state s.
// CRITICAL is never easier to leave than the states below it, whatever the settings.
func (r Rules) hold(s gpu.State) time.Duration {
	if s == gpu.Critical {
		return max(r.CriticalPause, r.Cooldown)
	}
	return r.Cooldown
}
