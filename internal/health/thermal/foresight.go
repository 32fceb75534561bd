package thermal

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Crossing says whether and when the temperature of a device passes a threshold
// if its power stays as it is.
type Crossing struct {
	Threshold string      // its name, such as temp_normal
	Limit     gpu.Celsius // its value
	State     gpu.State   // the state beyond it

	Passed  bool        // the temperature is beyond it now
	Ever    bool        // the temperature most likely passes it
	Sure    bool        // the whole interval of where it ends is beyond it, by a model that has seen power vary
	Settles gpu.Celsius // where it ends
	Power   gpu.Watts   // that it goes by

	In, Soonest, Latest time.Duration // until it passes; meaningless unless Ever
}

// Crossings returns the thresholds that a forecast is about, still without the
// forecast, the lowest first. It leaves temp_optimal out: nobody is hurt at 80 %
// of full speed, and the state follows soon enough.
func Crossings(t gpu.Thresholds) [3]Crossing {
	return [3]Crossing{
		{Threshold: "temp_normal", Limit: t.TempNormal, State: gpu.Throttled},
		{Threshold: "temp_throttle", Limit: t.TempThrottle, State: gpu.Critical},
		{Threshold: "temp_critical", Limit: t.TempCritical, State: gpu.Critical},
	}
}

// Text says what happens, to follow the name of a device.
func (c Crossing) Text() string {
	if c.Passed {
		return fmt.Sprintf("stays above %s %s °C at %.0f W: it settles at %.0f °C", c.Threshold, digits(float64(c.Limit)), float64(c.Power), float64(c.Settles))
	}
	return fmt.Sprintf("passes %s %s °C %s at %.0f W, and settles at %.0f °C", c.Threshold, digits(float64(c.Limit)), c.When(), float64(c.Power), float64(c.Settles))
}

// When says when the temperature passes the threshold.
func (c Crossing) When() string {
	if c.In < time.Second {
		return "now"
	}
	return "in " + words.Duration(c.In.Round(time.Second))
}

// Foresight slows work on a device down before its temperature crosses a
// threshold. It never changes the state of the device. The zero Foresight sees
// nothing ahead. It is a plain value: a copy is independent.
//
// It acts when a forecast is sure, and soon enough: the whole interval of where
// the temperature ends is beyond the threshold, and the latest time of passing it
// is within the lead of the state beyond. Worse counts at once, and better after
// Cooldown, as states do, so that it cannot flap faster than they.
type Foresight struct {
	ladder
	last time.Time // newest time seen
	why  Crossing  // the newest crossing behind the level
}

// lead returns how long before a device enters a state work slows down to what
// that state allows. A minute is time enough for batches to become smaller and
// for queues to look elsewhere; the power of a minute from now is anybody's
// guess. Work stops altogether only in the last seconds: until then half the
// speed, which came before, may have been enough.
func lead(s gpu.State) time.Duration {
	if s == gpu.Critical {
		return 10 * time.Second
	}
	return time.Minute
}

// Sight says how a device should be treated for what is ahead of it.
type Sight struct {
	State   gpu.State // the state whose multiplier holds; OPTIMAL: nothing is ahead
	Reason  string    // why, to follow the name of a device; empty: nothing is ahead
	Because Crossing  // what was last seen ahead
	Until   time.Time // the earliest time of a better State; zero while no cooldown runs
}

// Look takes in a forecast. No crossings mean that nothing is known, which counts
// as nothing ahead: a device that has stopped to measure its power is not held
// back for ever. A time before the newest one counts as the newest.
func (f *Foresight) Look(r Rules, now time.Time, crossings []Crossing) Sight {
	if !r.Forecast {
		*f = Foresight{}
		return Sight{State: gpu.Optimal}
	}
	if now.After(f.last) {
		f.last = now
	}
	ahead := Crossing{State: gpu.Optimal}
	for _, c := range crossings {
		if c.Sure && c.Latest <= lead(c.State) && c.State.Worse(ahead.State) {
			ahead = c
		}
	}
	f.follow(f.last, ahead.State, func(gpu.State) time.Duration { return r.Cooldown })
	if f.level == ahead.State {
		f.why = ahead
	}
	s := Sight{State: f.level, Because: f.why}
	switch {
	case f.level == gpu.Optimal:
		return Sight{State: gpu.Optimal}
	case f.better.IsZero():
		s.Reason = f.why.Text()
	default:
		s.Until = f.better.Add(r.Cooldown)
		s.Reason = fmt.Sprintf("was about to pass %s %s °C; the forecast has to stay better for %s", f.why.Threshold, digits(float64(f.why.Limit)), words.Duration(r.Cooldown))
	}
	return s
}
