package heat

import "math"

// vernier reads between the whole degrees of a sensor. When a reading goes from 61 to 62,
// the temperature is 61.5; if it took ten seconds from 60.5, it is likely to be 62 in
// five more. That matters most while a temperature creeps up to a threshold.
type vernier struct {
	Shown float64 // the last reading
	Step  float64 // change from the reading before to the last one: +1, -1, or 0 if it leapt
	Since float64 // seconds since the step
	Dwell float64 // seconds from one step to the next, the same way; 0 if there was none
}

// read returns the temperature behind a reading some seconds after the one before.
func (v *vernier) read(shown, seconds float64) float64 {
	v.Since += seconds
	if step := shown - v.Shown; step != 0 {
		v.Dwell = 0
		if step == v.Step {
			v.Dwell = v.Since
		}
		if v.Step = step; math.Abs(step) != 1 {
			v.Step = 0
		}
		v.Shown, v.Since = shown, 0
	}
	if v.Dwell < 3*seconds || v.Since > 2*v.Dwell {
		return shown
	}
	// It crossed the edge half an interval ago on average. If the next step is late, it
	// has slowed down: then the reading itself is the best guess.
	share := min(1, (v.Since+seconds/2)/v.Dwell)
	late := max(0, v.Since/v.Dwell-1)
	return shown + v.Step*(share-0.5)*(1-late)
}
