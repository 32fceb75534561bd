package monitor

import (
	"maps"
	"math"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/health/heat"
	"github.com/berth-gpu/berth/internal/health/thermal"
)

// Outlook forecasts the temperature of a device if its power stays the same.
type Outlook struct {
	Power     gpu.Watts  // a short average
	Settles   heat.Guess // the final temperature
	PerWatt   float64    // degrees that one more watt finally adds
	Crossings [3]thermal.Crossing
}

// outlook asks a model about the thresholds of a device. It returns nil if the model has
// not learned enough, or if the power is not measured.
func outlook(m *heat.Model, t gpu.Thresholds, celsius gpu.Celsius) *Outlook {
	watts, measured := m.Power().Get()
	if !measured || !m.Ready() {
		return nil
	}
	o := &Outlook{Power: watts, Settles: m.Settle(watts), PerWatt: m.PerWatt(), Crossings: thermal.Crossings(t)}
	highest := max(celsius, highestAhead(m, watts), o.Settles.High)
	for i := range o.Crossings {
		c := &o.Crossings[i]
		c.Power, c.Settles, c.Passed = watts, o.Settles.Mean, celsius >= c.Limit
		if highest < c.Limit {
			continue
		}
		if reach := m.Reach(c.Limit, watts); !reach.Never {
			c.Ever, c.In, c.Soonest, c.Latest = true, reach.In, reach.Soonest, reach.Latest
		}
		c.Sure = c.Ever && o.Settles.Low > c.Limit && m.Seasoned()
	}
	return o
}

// highestAhead returns a temperature that the device does not pass in the next half hour.
// It costs a tenth of the search for the time of a crossing, and for most devices it is
// answer enough.
func highestAhead(m *heat.Model, w gpu.Watts) gpu.Celsius {
	const between = 2 // possible rise between two looks, in degrees
	highest := m.Ahead(0, w).High
	for d := time.Second; d < 30*time.Minute; d *= 2 {
		highest = max(highest, m.Ahead(d, w).High)
	}
	return highest + between
}

// The monitor does not compute the outlook at each sample for a device far below every
// threshold whose power stays the same: that would cost more than the sample.
const (
	calmFor   = 5 * time.Second
	farBelow  = 15   // degrees
	samePower = 0.05 // share of the power
)

// calm reports whether the last outlook still holds. The caller holds judging.
func (u *unit) calm(t gpu.Thresholds, now time.Time, celsius gpu.Celsius, power gpu.Watts) bool {
	o := u.ahead
	return o != nil && now.Sub(u.looked) < calmFor && !now.Before(u.looked) && o.Crossings[0].Limit == t.TempNormal &&
		max(celsius, o.Settles.High) < t.TempNormal-farBelow && math.Abs(float64(power-o.Power)) < samePower*float64(o.Power)
}

// foresee learns from a sample, which is nil if nothing was measured, and computes the
// outlook of a device. The caller holds judging.
func (u *unit) foresee(rules thermal.Rules, now time.Time, s *gpu.Sample) {
	var ahead *Outlook
	if s != nil {
		u.heat.Learn(now, s.Temperature, s.Power)
		if celsius, measured := thermal.Temperature(s); measured && s.Power.Known() {
			if u.calm(rules.Thresholds, now, celsius, s.Power.Or(0)) {
				return
			}
			ahead = outlook(&u.heat, rules.Thresholds, celsius)
		}
	}
	var crossings []thermal.Crossing
	if ahead != nil {
		crossings = ahead.Crossings[:]
	}
	sight := u.foresight.Look(rules, now, crossings)
	u.ahead, u.looked = ahead, now
	u.mu.Lock()
	defer u.mu.Unlock()
	if s != nil && s.Power.Known() { // otherwise the model, which is large, has learned nothing
		u.model = u.heat
	}
	u.outlook, u.sight = ahead, sight
}

// slow lowers the multiplier of a reading because of a forecast.
func (r *Reading) slow(s thermal.Sight) {
	m := s.State.Multiplier()
	if m >= r.Multiplier {
		return
	}
	r.Multiplier, r.Cause, r.Until = m, CauseForecast, s.Until
	r.Slower = "it " + s.Reason
}

// Model returns a copy of the model of how the temperature of a device follows its power.
// It reports false if there is no such device.
func (m *Monitor) Model(uuid string) (heat.Model, bool) {
	u := m.unit(uuid)
	if u == nil {
		return heat.Model{}, false
	}
	u.mu.RLock()
	defer u.mu.RUnlock()
	return u.model, true
}

// Models returns a copy of every model, by UUID, including those of devices from before a
// restart that are not there now.
func (m *Monitor) Models() map[string]heat.Model {
	all := maps.Clone(m.Heat)
	if all == nil {
		all = map[string]heat.Model{}
	}
	for _, u := range m.list() {
		all[u.uuid], _ = m.Model(u.uuid)
	}
	return all
}
