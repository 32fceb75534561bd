package monitor

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/health"
	"github.com/berth-gpu/berth/internal/health/thermal"
)

// The events about one device, in the order in which one observation can cause
// them: device_lost or device_recovered, device_quarantined or
// device_probation, slots_changed, state_change, throttle or resume, critical,
// overheat, forecast. The callers hold the judging lock of the unit.

// tell sends an event about a unit. Its text is the name of the unit, followed by text.
func (m *Monitor) tell(u *unit, now time.Time, code gpu.EventCode, severity gpu.Severity, text string, data map[string]any) {
	m.emit(gpu.Event{
		Time: now, Code: code, Severity: severity, GPU: u.uuid, Text: u.description().Label() + text, Data: data,
	})
}

func (m *Monitor) tellFound(u *unit, now time.Time) {
	d := u.description()
	m.tell(u, now, gpu.EventDeviceFound, gpu.Note, fmt.Sprintf(" was found: %s with %v of memory", cmp.Or(d.Name, "a device without a name"), d.MemoryTotal), map[string]any{
		"index": d.Index, "name": d.Name, "backend": d.Backend, "memory_total_mb": d.MemoryTotal,
	})
}

// tellStanding sends an event if the standing of a device has changed.
func (m *Monitor) tellStanding(u *unit, now time.Time, before health.Standing) {
	s := u.standing
	if s == before {
		return
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
		m.tell(u, now, gpu.EventDeviceQuarantined, gpu.Serious, " is "+s.Reason()+"; berth grants nothing there, and programs that use it should stop", data)
	case s.Phase == health.Probation:
		m.tell(u, now, gpu.EventDeviceProbation, gpu.Warning, " is "+s.Reason(), data)
	default:
		m.tell(u, now, gpu.EventDeviceRecovered, gpu.Note, " is trusted again: it has all its slots", data)
	}
	if s.Withheld != before.Withheld {
		data := map[string]any{"withheld": s.Withheld}
		if s.Withheld > before.Withheld {
			m.tell(u, now, gpu.EventSlots, gpu.Warning, " has fewer slots for a while: its memory ran out", data)
		} else {
			m.tell(u, now, gpu.EventSlots, gpu.Note, " has a slot back: its memory has lasted", data)
		}
	}
}

// tellState sends the events of a change of state; s is nil if nothing was measured.
// Throttle and resume come in pairs: between them work has to slow down or wait, whatever
// the reason.
func (m *Monitor) tellState(u *unit, now time.Time, v thermal.Verdict, s *gpu.Sample) {
	if !v.Changed {
		return
	}
	data := measured(s)
	data["from"], data["to"] = string(v.From), string(v.State)
	m.tell(u, now, gpu.EventStateChange, severity(v.State), fmt.Sprintf(" is %s: %s", v.State, v.Reason), data)

	speed := map[string]any{"state": string(v.State), "multiplier": v.State.Multiplier()}
	well := !v.State.Worse(gpu.Normal)
	if well && u.throttled {
		m.tell(u, now, gpu.EventResume, gpu.Note, " may run at "+share(v.State)+" again", speed)
	}
	if !well && !u.throttled {
		m.tell(u, now, gpu.EventThrottle, severity(v.State), " should run at "+share(v.State)+": "+v.Reason, speed)
	}
	u.throttled = !well
	if v.State == gpu.Critical {
		m.tell(u, now, gpu.EventCritical, gpu.Serious, " must rest: "+v.Reason, measured(s))
	}
}

// tellHeat sends one event when the temperature passes temp_throttle. The excursion ends
// with the state it caused, so a temperature that flickers around the threshold counts as
// one.
func (m *Monitor) tellHeat(u *unit, now time.Time, v thermal.Verdict, rules thermal.Rules, s *gpu.Sample) {
	t, _ := thermal.Temperature(s)
	limit := rules.TempThrottle
	switch {
	case t > limit && !u.hot:
		u.hot = true
		data := measured(s)
		data["temp_throttle"] = float64(limit)
		m.tell(u, now, gpu.EventOverheat, gpu.Serious, " is too hot: "+v.Reason, data)
	case t <= limit && v.State != gpu.Critical:
		u.hot = false
	}
}

// tellForecast sends an event when a forecast begins to slow work down below what the
// state says, when it slows it down further, and when that is over.
func (m *Monitor) tellForecast(u *unit, now time.Time, state gpu.State) {
	s := u.sight // only the holder of judging writes it
	allowed := s.State.Multiplier()
	switch {
	case s.State.Worse(u.foretold) && allowed < state.Multiplier():
		c := s.Because
		m.tell(u, now, gpu.EventForecast, gpu.Warning, fmt.Sprintf(" %s; work on it should run at %s", s.Reason, share(s.State)), map[string]any{
			"threshold": c.Threshold, "limit_celsius": float64(c.Limit), "settles_celsius": tenth(c.Settles), "seconds": math.Round(c.In.Seconds()), "multiplier": allowed,
		})
		u.foretold = s.State
	case u.foretold.Worse(s.State):
		u.foretold = s.State
		if s.State == gpu.Optimal {
			m.tell(u, now, gpu.EventForecast, gpu.Note, " is not about to get too hot any more", map[string]any{"multiplier": state.Multiplier()})
		}
	}
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

// severity returns the severity of a state.
func severity(s gpu.State) gpu.Severity {
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
