package sim

import "math"

// The physics of a GPU has three parts. Each can be solved exactly, so that the result
// does not depend on how often anybody looks.
//
// Heat. The chip's temperature is that of the air plus a sum of modes. Each mode follows
// the power through its own first-order lag: heat into the die (a tenth of a second),
// into its spreader (seconds), into the heat sink (minutes). Under constant power every
// mode is one exponential.
//
// Power. A GPU without work sleeps. For a while after work it is awake but
// does nothing. Work adds power in proportion to load and to the clock.
//
// Clock. It is full unless the power would pass the cap, or the temperature has passed
// the slowdown point; then the clock keeps them there.

// mode is one exponential part of a thermal response.
type mode struct {
	CelsiusPerWatt float64 `yaml:"celsius_per_watt"`
	Seconds        float64 `yaml:"seconds"`
}

// relax moves value towards target for dt seconds with time constant tau. It is
// the exact solution of value' = (target - value) / tau.
func relax(value, target, dt, tau float64) float64 {
	return target + (value-target)*math.Exp(-dt/tau)
}

// warmth is the rise of temperature over the air, mode by mode.
type warmth []float64

// restingAt returns the state after a long time at constant power.
func restingAt(modes []mode, watts float64) warmth {
	w := make(warmth, len(modes))
	for i, m := range modes {
		w[i] = m.CelsiusPerWatt * watts
	}
	return w
}

// advance lets dt seconds of constant power pass. cooling is the flow of the air as a
// share of the usual flow: with less of it the last and slowest mode, from the heat sink
// into the air, gets both hotter and slower.
func (w warmth) advance(modes []mode, watts, cooling, dt float64) {
	for i, m := range modes {
		m = m.cooled(cooling, i == len(modes)-1)
		w[i] = relax(w[i], m.CelsiusPerWatt*watts, dt, m.Seconds)
	}
}

func (m mode) cooled(cooling float64, last bool) mode {
	if last {
		m.CelsiusPerWatt /= cooling
		m.Seconds /= cooling
	}
	return m
}

// sum returns the whole rise.
func (w warmth) sum() float64 {
	total := 0.0
	for _, v := range w {
		total += v
	}
	return total
}

// highest returns an upper bound of the rise while the power stays as it is: each mode
// moves straight from its present value to its resting value.
func (w warmth) highest(modes []mode, watts, cooling float64) float64 {
	total := 0.0
	for i, m := range modes {
		m = m.cooled(cooling, i == len(modes)-1)
		total += max(w[i], m.CelsiusPerWatt*watts)
	}
	return total
}

// powerModel says how a GPU turns load into watts.
type powerModel struct {
	Idle   float64 `yaml:"idle"`   // asleep
	Awake  float64 `yaml:"awake"`  // at full clock, without work
	Demand float64 `yaml:"demand"` // power of full load at full clock without a cap
	Cap    float64 `yaml:"cap"`

	AwakeSeconds  float64 `yaml:"awake_seconds"`  // how long it stays awake after work
	SensorSeconds float64 `yaml:"sensor_seconds"` // lag of the power sensor
}

// capShare is the share of its cap at which the regulator holds a GPU that wants more:
// the record shows 691.5 W under a cap of 700.
const capShare = 0.988

// capped returns the share of full clock, at most 1, at which load (0 to 1) just keeps to
// the cap in watts. The record holds idle and full load only, so the values between are
// chosen, not measured: power in proportion to the clock.
func (p powerModel) capped(load, cap float64) float64 {
	want := load * (p.Demand - p.Awake)
	room := max(cap*capShare-p.Awake, 0)
	if want <= room {
		return 1
	}
	return room / want
}

// watts returns the power of an awake GPU, at a load (0 to 1) and a share of its full
// clock.
func (p powerModel) watts(load, clock float64) float64 {
	return p.Awake + load*clock*(p.Demand-p.Awake)
}

// The governor keeps a GPU near its slowdown temperature. Ten times a second, it moves
// the clock a tenth of the way to its target, which is slow enough to be stable with the
// fastest mode of any model.
const (
	governorBand    = 5.0 // degrees over the slowdown point over which the clock goes from full to lowest
	governorStep    = 0.1
	governorLowest  = 0.2   // share of full clock
	governorSettled = 0.999 // from here on the clock is full again
)

// govern returns the next clock of the governor.
func govern(clock, celsius, slowdown float64) float64 {
	target := 1 - (1-governorLowest)*(celsius-slowdown)/governorBand
	target = min(1, max(governorLowest, target))
	clock += (target - clock) * governorStep
	if target == 1 && clock >= governorSettled {
		return 1
	}
	return clock
}
