package slowdown

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Kind says what a step does.
type Kind string

// The kinds of steps. Measured sets nothing, and reports the effect of the step before.
// Taken sets nothing, because somebody else set the limit.
const (
	Lowered  Kind = "lowered"
	Raised   Kind = "raised"
	Restored Kind = "restored"
	Measured Kind = "measured"
	Taken    Kind = "taken"
)

// Kinds returns the kinds of steps that change a power limit.
func Kinds() []Kind { return []Kind{Lowered, Raised, Restored} }

// Step is an action on a power limit, or a report about one.
type Step struct {
	Kind     Kind
	Was      gpu.Watts
	Watts    gpu.Watts // the limit to set; for Taken, the limit that somebody else set
	Original gpu.Watts
	Reason   string
	Lowest   bool // there is no lower limit
	Expected gpu.Opt[gpu.Celsius]
	Effect   *Effect // of the step before
}

// Sets reports whether the step sets a limit.
func (s *Step) Sets() bool { return s.Kind == Lowered || s.Kind == Raised || s.Kind == Restored }

// Effect is the expected and the measured effect of a step.
type Effect struct {
	Watts         gpu.Watts // the limit that had been set
	Before, After Heat
	Expected      gpu.Opt[gpu.Celsius] // temperature in the end
	In            time.Duration        // from the step to the measurement
}

// String returns the effect in the words of an event.
func (e *Effect) String() string {
	text := fmt.Sprintf("%.0f s after it was set to %.0f W: ", e.In.Seconds(), e.Watts)
	text += change(e.Before.Temperature, e.After.Temperature, "°C") + ", " + change(e.Before.Power, e.After.Power, "W")
	if expected, known := e.Expected.Get(); known {
		text += fmt.Sprintf(" (expected in the end: %.0f °C)", expected)
	}
	return text
}

// change returns "84 → 80 °C".
func change[T ~float64](before, after gpu.Opt[T], unit string) string {
	number := func(o gpu.Opt[T]) string {
		if v, known := o.Get(); known {
			return fmt.Sprintf("%.0f", float64(v))
		}
		return "?"
	}
	return number(before) + " → " + number(after) + " " + unit
}

// data returns the effect as data of an event.
func (e *Effect) data() map[string]any {
	d := map[string]any{"limit_watts": float64(e.Watts), "seconds": e.In.Seconds()}
	put(d, "before_celsius", e.Before.Temperature)
	put(d, "after_celsius", e.After.Temperature)
	put(d, "before_watts", e.Before.Power)
	put(d, "after_watts", e.After.Power)
	put(d, "expected_celsius", e.Expected)
	return d
}

func put[T ~float64](d map[string]any, key string, o gpu.Opt[T]) {
	if v, known := o.Get(); known {
		d[key] = float64(v)
	}
}

// Event returns the event for a step.
func (s *Step) Event(on gpu.Device, now time.Time) gpu.Event {
	e := gpu.Event{Time: now, Code: gpu.EventPowerLimit, Severity: gpu.Note, GPU: on.UUID, Data: map[string]any{
		"step": string(s.Kind), "watts": float64(s.Watts), "was_watts": float64(s.Was),
	}}
	switch s.Kind {
	case Lowered:
		e.Severity = gpu.Warning
		e.Text = fmt.Sprintf("berth lowered the power limit of %s from %.0f to %.0f W, because %s", on.Label(), s.Was, s.Watts, s.Reason)
		if s.Lowest {
			e.Text += "; berth sets no lower one"
		}
	case Raised:
		e.Text = fmt.Sprintf("berth raised the power limit of %s from %.0f to %.0f W, because %s", on.Label(), s.Was, s.Watts, s.Reason)
	case Restored:
		e.Text = fmt.Sprintf("berth gave %s back its power limit of %.0f W (it was %.0f W), because %s", on.Label(), s.Watts, s.Was, s.Reason)
	case Measured:
		e.Text = fmt.Sprintf("The power limit of %s took effect, %s", on.Label(), s.Effect)
	case Taken:
		e.Severity = gpu.Warning
		e.Text = fmt.Sprintf("Somebody set the power limit of %s to %.0f W while berth held it at %.0f W; berth leaves it, and does not steer the power of this GPU until its settings change or the daemon restarts", on.Label(), s.Watts, s.Was)
	}
	if expected, known := s.Expected.Get(); known {
		e.Text += fmt.Sprintf("; it should settle at %.0f °C", expected)
	}
	if s.Effect != nil && s.Kind != Measured {
		e.Text += "; " + s.Effect.String()
	}
	put(e.Data, "expected_celsius", s.Expected)
	if s.Original > 0 {
		e.Data["original_watts"] = float64(s.Original)
	}
	if s.Reason != "" {
		e.Data["reason"] = s.Reason
	}
	if s.Effect != nil {
		e.Data["measured"] = s.Effect.data()
	}
	return e
}
