package slowdown

import (
	"math"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// How the power limit moves.
const (
	stepShare   = 0.05             // size of a step, as a share of the default limit
	stepPause   = 15 * time.Second // after a step, until its effect shows
	raisePause  = 30 * time.Second // before a step up that may turn out too early
	lowerAt     = 0.5              // multiplier at which the limit goes down
	raiseFrom   = 0.8              // multiplier from which the limit may go up
	sameLimit   = 1                // watts by which a driver may round
	mostRelapse = 4                // most relapses that count; each doubles the pause before a step up
)

// Limits are the power limits of a device as its driver reports them.
type Limits struct {
	Now, Default, Least, Most gpu.Watts
}

// Heat holds the measurements of one moment.
type Heat struct {
	Temperature gpu.Opt[gpu.Celsius]
	Power       gpu.Opt[gpu.Watts]
}

// Kept is the part of a Limit that must survive the daemon. The caller writes it to a
// file before it takes a step, but after a step that restores the limit.
type Kept struct {
	Original gpu.Watts `json:"original_watts"` // the limit before berth changed it
	Set      gpu.Watts `json:"set_watts"`      // the limit that berth sets
	Before   gpu.Watts `json:"before_watts"`   // the limit in force before that step
}

// Limit is the state of the power limit of one device. The zero Limit holds nothing.
// Decide returns the Limit after a step, so that the caller can write it to a file before
// it takes the step.
type Limit struct {
	Kept
	recalled bool // from before a restart, so it may not be in force
	next     time.Time
	risen    time.Time // time of the last step up
	relapses int
	steps    int // steps down since the limit was last the original
	off      bool
	failed   bool // the device did not take the last step
	doubted  bool // the device gave no answer since the last step, so it may have been reset

	waiting  bool // the effect of the last step is not measured yet
	at       time.Time
	then     Heat
	expected gpu.Opt[gpu.Celsius]
}

// Recall returns the Limit of an earlier daemon that ended while it held one.
func Recall(k Kept) Limit { return Limit{Kept: k, recalled: true} }

// Held reports whether the power limit is lower because of berth.
func (l *Limit) Held() bool { return l.Original > 0 }

// Steps returns how many steps down led to the limit in force.
func (l *Limit) Steps() int { return l.steps }

// Again returns a Limit that tries again the step that the device did not take.
func (l Limit) Again() Limit {
	l.off, l.failed = false, false
	return l
}

// Failed returns the Limit after a step that the device did not take. It tries again
// later.
func (l Limit) Failed(now time.Time) Limit {
	l.next, l.failed, l.doubted = now.Add(raisePause), true, true
	return l
}

// Doubt returns the Limit of a device that gives no answer.
func (l Limit) Doubt() Limit {
	l.doubted = true
	return l
}

// Ask holds the arguments of a decision about the power limit.
type Ask struct {
	Now        time.Time
	Steer      bool    // whether the limit may be lowered: the policy allows it, and no exempt lease is on the device
	Multiplier float64 // from heat alone
	Limits     Limits
	Least      gpu.Opt[gpu.Watts] // lowest limit that berth may set
	Heat       Heat
	Reason     string // why the device should run slower

	// A step up must not lead to the temperature Normal. Settles returns the temperature
	// that the device reaches in the end at a power, if that is known.
	Normal  gpu.Celsius
	Settles func(gpu.Watts) (gpu.Celsius, bool)
}

// Decide returns the next step, and the Limit after it. The step is nil if there is
// nothing to do or to publish.
func (l Limit) Decide(a Ask) (Limit, *Step) {
	switch {
	case l.Held() && l.reset(a.Limits):
		return Limit{}, nil
	case l.Held() && !l.ours(a.Limits.Now):
		next := Limit{off: true}
		return next, &Step{Kind: Taken, Was: l.Set, Watts: a.Limits.Now}
	case l.failed && a.Now.Before(l.next):
		return l, nil
	case l.Held() && (l.recalled || !a.Steer):
		return l.restore(a)
	case !a.Steer || l.off:
		return l, nil
	case a.Multiplier <= lowerAt && !a.Now.Before(l.next):
		if next, step := l.lower(a); step != nil {
			return next, step
		}
	case a.Multiplier >= raiseFrom && l.Held() && !a.Now.Before(l.next):
		if next, step := l.raise(a); step != nil {
			return next, step
		}
	}
	return l.settle(a)
}

// ours reports whether berth may have set the limit in force. After a crash it
// may also be the one from before the last step.
func (l *Limit) ours(now gpu.Watts) bool {
	if near(now, l.Set) {
		return true
	}
	return l.recalled && (near(now, l.Before) || near(now, l.Original))
}

// reset reports whether the device has lost the limit that berth set, and nobody set another
// one: it gave no answer, or the machine was started again, and the limit is as before or as
// the driver sets it at first.
func (l *Limit) reset(now Limits) bool {
	return (l.doubted || l.recalled) && !l.ours(now.Now) && (near(now.Now, l.Original) || near(now.Now, now.Default))
}

func near(a, b gpu.Watts) bool { return math.Abs(float64(a-b)) <= sameLimit }

// restore gives the device back its original limit.
func (l Limit) restore(a Ask) (Limit, *Step) {
	step := &Step{Kind: Restored, Was: a.Limits.Now, Watts: l.Original, Effect: l.effect(a), Reason: "it is not to be lowered any more"}
	if l.recalled {
		step.Reason = "an earlier daemon ended while it held it"
	}
	if a.Limits.Most > 0 {
		step.Watts = min(step.Watts, a.Limits.Most)
	}
	if near(a.Limits.Now, step.Watts) {
		step = nil // nothing has to be set
	}
	return Limit{relapses: l.relapses, risen: a.Now, next: a.Now.Add(raisePause), off: l.off}, step
}

// lower takes a step down, or two if nothing may run at all.
func (l Limit) lower(a Ask) (Limit, *Step) {
	by := a.step()
	floor := max(a.Limits.Least, a.Least.Or(0))
	power, measured := a.Heat.Power.Get()
	if measured && power+by < floor {
		return l, nil // the device draws less than any limit that berth may set
	}
	from := a.Limits.Now
	if measured && power > 0 {
		from = min(from, power)
	}
	if a.Multiplier == 0 {
		by *= 2
	}
	to := max(gpu.Watts(math.Floor(float64(from-by))), floor)
	if to >= a.Limits.Now-2*sameLimit {
		return l, nil // it is as low as it may be
	}
	next := l.after(a, to, stepPause)
	if !l.Held() {
		next.Original = a.Limits.Now
	}
	if !l.risen.IsZero() && a.Now.Sub(l.risen) < memory {
		next.relapses = min(l.relapses+1, mostRelapse)
	}
	next.steps++
	return next, &Step{
		Kind: Lowered, Was: a.Limits.Now, Watts: to, Original: next.Original, Reason: a.Reason,
		Expected: next.expected, Effect: l.effect(a), Lowest: to == floor,
	}
}

// raise takes a step up if the device stays cool with it: the forecast says so, or the
// device draws less than its limit. Without a forecast, a device in its best state may
// try at once, and another one after a while.
func (l Limit) raise(a Ask) (Limit, *Step) {
	to := min(gpu.Watts(math.Ceil(float64(a.Limits.Now+a.step()))), l.Original)
	if near(to, l.Original) {
		to = l.Original
	}
	wait := stepPause
	settles, known := a.settles(to)
	if known && settles >= a.Normal && (a.Multiplier < 1 || a.bound()) {
		return l, nil
	}
	if a.Multiplier < 1 {
		wait = raisePause << l.relapses
		if !known {
			wait *= 2
		}
		if a.Now.Sub(l.at) < wait {
			return l, nil
		}
	}
	next := l.after(a, to, wait)
	next.risen, next.steps = a.Now, max(l.steps-1, 1)
	step := &Step{Kind: Raised, Was: a.Limits.Now, Watts: to, Original: l.Original, Reason: "it is cooler", Expected: next.expected, Effect: l.effect(a)}
	if to == l.Original {
		step.Kind = Restored
		next = Limit{relapses: l.relapses, risen: a.Now, next: next.next}
	}
	return next, step
}

// after returns the Limit after a step that sets to.
func (l Limit) after(a Ask, to gpu.Watts, wait time.Duration) Limit {
	l.Before, l.Set, l.failed, l.doubted = a.Limits.Now, to, false, false
	l.next = a.Now.Add(wait)
	l.waiting, l.at, l.then = true, a.Now, a.Heat
	l.expected = gpu.Opt[gpu.Celsius]{}
	if settles, known := a.settles(to); known {
		l.expected = gpu.Some(settles)
	}
	return l
}

// settle reports the effect of the last step once it shows, if no other step follows.
func (l Limit) settle(a Ask) (Limit, *Step) {
	if effect := l.effect(a); effect != nil {
		l.waiting = false
		return l, &Step{Kind: Measured, Was: l.Before, Watts: l.Set, Original: l.Original, Effect: effect}
	}
	if !l.Held() && !l.risen.IsZero() && a.Now.Sub(l.risen) >= memory {
		l.relapses = 0
	}
	return l, nil
}

// effect returns the effect of the last step. It returns nil if the effect was already
// reported, or if it is too early.
func (l *Limit) effect(a Ask) *Effect {
	if !l.waiting || a.Now.Sub(l.at) < stepPause {
		return nil
	}
	return &Effect{Watts: l.Set, Before: l.then, After: a.Heat, Expected: l.expected, In: a.Now.Sub(l.at)}
}

// step returns the size of a step.
func (a *Ask) step() gpu.Watts {
	whole := a.Limits.Default
	if whole <= 0 {
		whole = a.Limits.Now
	}
	return max(stepShare*whole, 2*sameLimit)
}

// bound reports whether the device draws about as much as its limit allows, so that a
// higher limit makes it hotter at once.
func (a *Ask) bound() bool {
	power, measured := a.Heat.Power.Get()
	return measured && power > 0.9*a.Limits.Now
}

func (a *Ask) settles(w gpu.Watts) (gpu.Celsius, bool) {
	if a.Settles == nil {
		return 0, false
	}
	return a.Settles(w)
}
