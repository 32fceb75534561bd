package monitor

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/health"
	"github.com/berth-gpu/berth/internal/health/thermal"
)

// The events about one device, in the order in which one observation can cause
// them: device_lost or device_recovered, device_quarantined or
// device_probation, slots_changed, state_change, overheat, forecast. The callers hold the
// judging lock of the unit.

// tell sends the events of one observation, one for each fact.
func (m *Monitor) tell(events ...gpu.Event) {
	for _, e := range facts(events) {
		m.emit(e)
	}
}

// explains says which events mean nothing more to a reader of the first one. A fact is
// told once: what follows from it in the same moment is in its Also.
var explains = map[gpu.EventCode][]gpu.EventCode{
	gpu.EventDeviceLost:        {gpu.EventStateChange},
	gpu.EventDeviceQuarantined: {gpu.EventStateChange},
	gpu.EventDeviceRecovered:   {gpu.EventStateChange},
	gpu.EventDeviceProbation:   {gpu.EventStateChange},
	gpu.EventStateChange:       {gpu.EventOverheat},
}

// facts returns the events of one observation without those that the event before them
// explains. It has the codes and the numbers of those, and is never less serious.
func facts(events []gpu.Event) []gpu.Event {
	var list []gpu.Event
	for _, e := range events {
		if n := len(list); n > 0 && slices.Contains(explains[list[n-1].Code], e.Code) && list[n-1].Severity.AtLeast(e.Severity) {
			fact := &list[n-1]
			fact.Also = append(append(fact.Also, e.Code), e.Also...)
			data := maps.Clone(e.Data)
			maps.Copy(data, fact.Data)
			fact.Data = data
			continue
		}
		list = append(list, e)
	}
	return list
}

// event returns an event about a unit. Its text is the name of the unit, followed by text.
func (u *unit) event(now time.Time, code gpu.EventCode, severity gpu.Severity, text string, data map[string]any) gpu.Event {
	return gpu.Event{Time: now, Code: code, Severity: severity, GPU: u.uuid, Text: u.description().Label() + text, Data: data}
}

func (m *Monitor) tellFound(u *unit, now time.Time) {
	d := u.description()
	m.tell(u.event(now, gpu.EventDeviceFound, gpu.Note, fmt.Sprintf(" was found: %s with %v of memory", cmp.Or(d.Name, "a device without a name"), d.MemoryTotal), map[string]any{
		"index": d.Index, "name": d.Name, "backend": d.Backend, "memory_total_mb": d.MemoryTotal,
	}))
}

// ofStanding returns the events of a change of the standing of a device, and keeps the
// standing.
func (m *Monitor) ofStanding(u *unit, now time.Time, before health.Standing) (events []gpu.Event) {
	s := u.standing
	if s == before {
		return nil
	}
	m.Standings.Changed(u.uuid, s)
	data := map[string]any{"phase": string(s.Phase)}
	if !s.Until.IsZero() {
		data["until"] = s.Until
	}
	switch {
	case s.Phase == before.Phase:
	case s.Phase == health.Quarantined && u.lost: // device_lost has said that
	case s.Phase == health.Quarantined:
		events = append(events, u.event(now, gpu.EventDeviceQuarantined, gpu.Serious, " is "+s.Reason()+"; berth grants nothing there, and programs that use it should stop", data))
	case s.Phase == health.Probation:
		events = append(events, u.event(now, gpu.EventDeviceProbation, gpu.Warning, " is "+s.Reason(), data))
	default:
		events = append(events, u.event(now, gpu.EventDeviceRecovered, gpu.Note, " is trusted again: it has all its slots", data))
	}
	if s.Withheld != before.Withheld {
		data := map[string]any{"withheld": s.Withheld}
		if s.Withheld > before.Withheld {
			events = append(events, u.event(now, gpu.EventSlots, gpu.Warning, " has fewer slots for a while: its memory ran out", data))
		} else {
			events = append(events, u.event(now, gpu.EventSlots, gpu.Note, " has a slot back: its memory has lasted", data))
		}
	}
	return events
}

// ofState returns the event of a change of state, if there is one; s is nil if nothing was
// measured. Throttle and resume come in pairs: between them work has to slow down or wait,
// whatever the reason.
func (u *unit) ofState(now time.Time, v thermal.Verdict, s *gpu.Sample) []gpu.Event {
	if !v.Changed {
		return nil
	}
	was := u.throttled
	u.throttled = v.State.Worse(gpu.Normal)
	e := u.changed(now, v.From, v.State, v.Reason, was)
	maps.Copy(e.Data, measured(s))
	return []gpu.Event{e}
}

// changed returns the event of a change of state. throttled is whether work has to slow
// down already.
func (u *unit) changed(now time.Time, from, to gpu.State, reason string, throttled bool) gpu.Event {
	so := ""
	switch to {
	case gpu.Critical:
		so = " and must rest"
	case gpu.Throttled:
		so = " and should run at " + share(to)
	}
	var also []gpu.EventCode
	switch bad := to.Worse(gpu.Normal); {
	case bad && !throttled:
		also = append(also, gpu.EventThrottle)
	case !bad && throttled:
		also, so = append(also, gpu.EventResume), " and may run at "+share(to)+" again"
	}
	if to == gpu.Critical {
		also = append(also, gpu.EventCritical)
	}
	e := u.event(now, gpu.EventStateChange, Severity(to), fmt.Sprintf(" is %s%s: %s", to, so, reason), map[string]any{
		"from": string(from), "to": string(to), "state": string(to), "multiplier": to.Multiplier(),
	})
	e.Also = also
	return e
}

// ofHeat returns one event when the temperature passes temp_throttle. The excursion ends
// with the state it caused, so a temperature that flickers around the threshold counts as
// one.
func (u *unit) ofHeat(now time.Time, v thermal.Verdict, rules thermal.Rules, s *gpu.Sample) []gpu.Event {
	t, _ := thermal.Temperature(s)
	limit := rules.TempThrottle
	switch {
	case t > limit && !u.hot:
		u.hot = true
		data := measured(s)
		data["temp_throttle"] = float64(limit)
		return []gpu.Event{u.event(now, gpu.EventOverheat, gpu.Serious, " is too hot: "+v.Reason, data)}
	case t <= limit && v.State != gpu.Critical:
		u.hot = false
	}
	return nil
}

// ofForecast returns an event when a forecast begins to slow work down below what the
// state says, when it slows it down further, and when that is over.
func (u *unit) ofForecast(now time.Time, state gpu.State) []gpu.Event {
	s := u.sight // only the holder of judging writes it
	allowed := s.State.Multiplier()
	switch {
	case s.State.Worse(u.foretold) && allowed < state.Multiplier():
		u.foretold = s.State
		c := s.Because
		return []gpu.Event{u.event(now, gpu.EventForecast, gpu.Warning, fmt.Sprintf(" %s; work on it should run at %s", s.Reason, share(s.State)), map[string]any{
			"threshold": c.Threshold, "limit_celsius": float64(c.Limit), "settles_celsius": tenth(c.Settles), "seconds": math.Round(c.In.Seconds()), "multiplier": allowed,
		})}
	case u.foretold.Worse(s.State):
		u.foretold = s.State
		if s.State == gpu.Optimal {
			return []gpu.Event{u.event(now, gpu.EventForecast, gpu.Note, " is not about to get too hot any more", map[string]any{"multiplier": state.Multiplier()})}
		}
	}
	return nil
}

// tenth rounds a temperature to one decimal.
func tenth(c gpu.Celsius) float64 { return math.Round(float64(c)*10) / 10 }

// measured returns the numbers behind a judgement.
func measured(s *gpu.Sample) map[string]any {
	data := map[string]any{}
	if s == nil {
		return data
	}
	if t, ok := s.Temperature.Get(); ok {
		data["temperature_celsius"] = float64(t)
	}
	if p, ok := s.MemoryPercent().Get(); ok {
		data["memory_percent"] = math.Round(float64(p)*10) / 10
	}
	return data
}

// Severity returns the severity of the event that tells of a state.
func Severity(s gpu.State) gpu.Severity {
	switch s {
	case gpu.Optimal, gpu.Normal:
		return gpu.Note
	case gpu.Throttled:
		return gpu.Warning
	}
	return gpu.Serious
}

// share says how fast work may run in a state.
func share(s gpu.State) string {
	if s == gpu.Optimal {
		return "full speed"
	}
	return fmt.Sprintf("%.0f %% of full speed", 100*s.Multiplier())
}
