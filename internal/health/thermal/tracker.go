package thermal

import (
	"cmp"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Tracker follows the state of one device. The zero Tracker has measured
// nothing yet and is UNAVAILABLE. It is a plain value: a copy is independent.
//
// A worse reading counts at once. A better one opens a window: when every reading has
// been better than the state for its hold time (Cooldown, or CriticalPause for CRITICAL),
// the state becomes the worst of the readings in the window; with Steps, THROTTLED becomes
// NORMAL first, for a hold time of its own. One reading as bad as the
// state closes the window, and the next better one opens a new one. After an improvement
// the window starts again, so a device earns each step to a better state by itself.
//
// A device that does not answer is UNAVAILABLE at once, and the first answer ends that at
// once. Underneath, windows keep running while the device is away, and one opens if none
// was open. A device that comes back before the hold time is over continues where it was,
// so it cannot leave CRITICAL early by falling off the bus. A device that comes back
// later is judged by its readings then.
type Tracker struct {
	ladder           // by readings; kept while away
	away   bool      // whether the last observation was a miss
	since  time.Time // when the visible state began

	// The states by one of the two alone, to find out which one decides.
	heat, memory ladder
	cause        string
}

// Verdict is the judgement on a device after an observation.
type Verdict struct {
	State   gpu.State
	From    gpu.State // the state before this observation
	Changed bool      // whether State differs from From
	Since   time.Time // when State began
	Reason  string    // why, to follow a colon
	Cause   string    // which threshold decides State, CauseTemperature before CauseMemory, or CauseSilent; may be empty
	Until   time.Time // the earliest time a better state is possible; zero while no cooldown runs
	Stop    bool      // the temperature is above temp_critical: holders must stop now
}

// Observe judges a sample. A time before the newest one counts as the newest: a
// clock that is set back makes cooldowns longer, never shorter.
func (t *Tracker) Observe(r Rules, now time.Time, s *gpu.Sample) Verdict {
	heat, heatWhy := classifyTemperature(r.Thresholds, s)
	memory, memoryWhy := classifyMemory(r.Thresholds, s)
	raw, why := classify(s, heat, memory, heatWhy, memoryWhy)
	if raw == gpu.Unavailable {
		return t.Missed(now, why)
	}
	now, from := t.pass(now), t.state()
	t.away = false
	t.follow(now, raw, r.Steps, r.hold)
	t.heat.follow(now, cmp.Or(heat, gpu.Optimal), r.Steps, r.hold)
	t.memory.follow(now, cmp.Or(memory, gpu.Optimal), r.Steps, r.hold)
	v := t.verdict(now, from)
	v.Reason, v.Cause, v.Stop = why, t.decides(heat != "" || memory != ""), tooHot(r.Thresholds, s)
	if !t.better.IsZero() {
		hold := r.hold(t.level)
		v.Until = t.better.Add(hold)
		v.Reason = fmt.Sprintf("%s, which has to hold for %v before the state gets better", why, hold)
	}
	return v
}

// Missed records that the device did not answer.
func (t *Tracker) Missed(now time.Time, why string) Verdict {
	now, from := t.pass(now), t.state()
	t.away = true
	for _, l := range []*ladder{&t.ladder, &t.heat, &t.memory} {
		if l.better.IsZero() {
			l.better, l.worst = now, gpu.Optimal
		}
	}
	v := t.verdict(now, from)
	v.Reason, v.Cause = why, gpu.CauseSilent
	return v
}

// decides returns the cause of the present state. A state that the device keeps for a
// while after both have become better has the cause that it had before.
func (t *Tracker) decides(measured bool) string {
	switch {
	case t.level == gpu.Optimal, !measured:
		t.cause = ""
	case !t.level.Worse(t.heat.level):
		t.cause = gpu.CauseTemperature
	case !t.level.Worse(t.memory.level):
		t.cause = gpu.CauseMemory
	}
	return t.cause
}

func (t *Tracker) state() gpu.State {
	if t.away || t.level == "" {
		return gpu.Unavailable
	}
	return t.level
}

func (t *Tracker) verdict(now time.Time, from gpu.State) Verdict {
	state := t.state()
	if state != from || t.since.IsZero() {
		t.since = now
	}
	return Verdict{State: state, From: from, Changed: state != from, Since: t.since}
}
