package thermal

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Crossing says whether and when the temperature of a device passes a threshold if its
// power stays the same.
type Crossing struct {
	Threshold string      // its name, such as temp_normal
	Limit     gpu.Celsius // its value
	State     gpu.State   // the state beyond it

	Passed  bool        // whether the temperature is beyond it now
	Ever    bool        // whether the temperature most likely passes it
	Sure    bool        // whether the whole interval of the final temperature is beyond it, by a model that has seen power vary
	Settles gpu.Celsius // the final temperature
	Power   gpu.Watts   // the power of the forecast

	In, Soonest, Latest time.Duration // time until it passes; meaningless unless Ever
}

// Crossings returns the thresholds of a forecast, still without the forecast, the lowest
// first. It leaves temp_optimal out: 80 % of full speed hurts nobody, and the state
// follows soon enough.
func Crossings(t gpu.Thresholds) [3]Crossing {
	return [3]Crossing{
		{Threshold: "temp_normal", Limit: t.TempNormal, State: gpu.Throttled},
		{Threshold: "temp_throttle", Limit: t.TempThrottle, State: gpu.Critical},
		{Threshold: "temp_critical", Limit: t.TempCritical, State: gpu.Critical},
	}
}

// Text says what happens, to follow the name of a device.
func (c Crossing) Text() string {
	limit := c.Threshold + " " + digits(float64(c.Limit)) + " °C"
	if c.State == gpu.Critical && c.Threshold != "temp_critical" {
		limit = digits(float64(c.Limit)) + " °C, where CRITICAL begins,"
	}
	if c.Passed {
		return fmt.Sprintf("stays above %s at %.0f W: it settles at %.0f °C", limit, float64(c.Power), float64(c.Settles))
	}
	return fmt.Sprintf("passes %s %s at %.0f W, and settles at %.0f °C", limit, c.When(), float64(c.Power), float64(c.Settles))
}

// When says when the temperature passes the threshold.
func (c Crossing) When() string {
	if c.In < time.Second {
		return "now"
	}
	return "in " + words.Duration(c.In.Round(time.Second))
}

// Foresight slows work on a device down before its temperature crosses a threshold. It
// never changes the state of the device. The zero Foresight sees nothing ahead. It is a
// plain value: a copy is independent.
//
// It acts when a forecast is sure, and soon enough: the whole interval of the final
// temperature is beyond the threshold, and the latest time of passing it is within the
// lead of the state beyond. Worse counts at once, and better after Cooldown, as with
// states, so that it cannot flap faster than they do.
type Foresight struct {
	ladder
	why Crossing // the newest crossing behind the level
}

// lead returns how long before a device enters a state work slows down to what that state
// allows. A minute is enough for batches to become smaller and for queues to look
// elsewhere; the power a minute from now is anybody's guess. Work stops altogether only
// in the last seconds: until then half the speed, which came before, may have been
// enough.
func lead(s gpu.State) time.Duration {
	if s == gpu.Critical {
		return 10 * time.Second
	}
	return time.Minute
}

// Sight says how to treat a device because of a forecast.
type Sight struct {
	State   gpu.State // the state whose multiplier holds; OPTIMAL if nothing is ahead
	Reason  string    // why, to follow the name of a device; empty if nothing is ahead
	Because Crossing  // the last crossing seen ahead
	Until   time.Time // the earliest time of a better State; zero while no cooldown runs
}

// Look adds a forecast. No crossings mean that nothing is known, which counts as nothing
// ahead: a device that no longer measures its power is not slowed down for ever. A time
// before the newest one counts as the newest.
func (f *Foresight) Look(r Rules, now time.Time, crossings []Crossing) Sight {
	if !r.Forecast {
		*f = Foresight{}
		return Sight{State: gpu.Optimal}
	}
	ahead := Crossing{State: gpu.Optimal}
	for _, c := range crossings {
		if c.Sure && c.Latest <= lead(c.State) && c.State.Worse(ahead.State) {
			ahead = c
		}
	}
	f.follow(f.pass(now), ahead.State, false, func(gpu.State) time.Duration { return r.Cooldown })
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
