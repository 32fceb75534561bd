package heat

import (
	"math"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Guess is a temperature, and an interval that contains it nine times out of ten.
type Guess struct {
	Mean, Low, High gpu.Celsius
}

// Step is a power that lasts for a time.
type Step struct {
	For   time.Duration
	Power gpu.Watts
}

// Ahead returns the temperature in d if the power is w from now on.
func (m *Model) Ahead(d time.Duration, w gpu.Watts) Guess {
	return m.Along(Step{d, w})
}

// Along returns the temperature at the end of steps of power that begin now.
func (m *Model) Along(steps ...Step) Guess {
	l, seconds := m.Fit.Lagged, 0.0
	for _, s := range steps {
		l.pass(s.For.Seconds(), float64(s.Power))
		seconds += s.For.Seconds()
	}
	return m.guess(seconds, &l)
}

// Settle returns the final temperature if the power is w from now on.
func (m *Model) Settle(w gpu.Watts) Guess {
	return m.Ahead(time.Duration(8*lags[parts-1])*time.Second, w)
}

// Present forecasts the temperature in d from the present alone. Ahead knows the power;
// Present does not, and its interval allows for changes of the power. It is never much
// worse than "it stays as it is".
func (m *Model) Present(d time.Duration) Guess {
	seconds := max(0, d.Seconds())
	around := m.aroundAverages()
	ways := m.ways(fades(seconds), &around)
	mean := m.between(seconds, m.Celsius, func(t *track) float64 { return t.trust(m.Celsius, t.mix(&ways)) })
	low := m.between(seconds, 0, func(t *track) float64 { return t.Present.span(sparePresent).Low })
	high := m.between(seconds, 0, func(t *track) float64 { return t.Present.span(sparePresent).High })
	return Guess{gpu.Celsius(mean), gpu.Celsius(mean + min(low, 0)), gpu.Celsius(mean + max(high, 0))}
}

// PerWatt returns how many degrees one more watt finally adds.
func (m *Model) PerWatt() float64 {
	sum := 0.0
	for _, g := range m.Fit.Gain {
		sum += g
	}
	return sum
}

// guess returns the temperature at lagged powers, some seconds ahead.
func (m *Model) guess(seconds float64, l *lagged) Guess {
	w := l.Watts[0]
	mean := m.Fit.celsius(l)
	low := m.between(seconds, 0, func(t *track) float64 { return t.Known.span(spareKnown).Low })
	high := m.between(seconds, 0, func(t *track) float64 { return t.Known.span(spareKnown).High })
	low, high = min(low, -narrowest), max(high, narrowest)
	// The model has not seen this power: the gain may be wrong there.
	if far := max(m.Least-w, w-m.Most, 0); far > 0 {
		unsure := far * (0.2*m.PerWatt() + 0.05*enough/(enough+m.Fit.Varied))
		low, high = low-unsure, high+unsure
	}
	return Guess{gpu.Celsius(mean), gpu.Celsius(mean + low), gpu.Celsius(mean + high)}
}

// narrowest is the least distance from a guess to each end of its interval, in degrees: a
// sensor that shows whole degrees tells no more.
const narrowest = 1

// between interpolates a figure of the tracks for a time ahead, from its value now.
// Beyond the farthest tested track, the figure stays the same.
func (m *Model) between(seconds, now float64, figure func(*track) float64) float64 {
	before, value := 0.0, now
	for h := range m.tracks {
		if h > 0 && m.tracks[h].Seen < 3 {
			break
		}
		there := figure(&m.tracks[h])
		if seconds <= distances[h] {
			return value + (there-value)*(seconds-before)/(distances[h]-before)
		}
		before, value = distances[h], there
	}
	return value
}

// Crossing says when the temperature reaches a limit.
type Crossing struct {
	Never bool // the temperature does not reach the limit at this power
	In    time.Duration

	// Soonest and Latest contain the time nine times out of ten. Either may be Forever,
	// Soonest only if Never.
	Soonest, Latest time.Duration
}

// Forever is a time that does not come.
const Forever time.Duration = math.MaxInt64

// Reach returns when the device shows limit degrees if the power is w from now on. A
// sensor shows whole degrees, so that is half a degree earlier.
func (m *Model) Reach(limit gpu.Celsius, w gpu.Watts) Crossing {
	c := Crossing{
		In:      m.when(limit, w, func(g Guess) gpu.Celsius { return g.Mean }),
		Soonest: m.when(limit, w, func(g Guess) gpu.Celsius { return g.High }),
		Latest:  m.when(limit, w, func(g Guess) gpu.Celsius { return g.Low }),
	}
	if gpu.Celsius(m.Celsius) >= limit {
		c.In, c.Soonest = 0, 0
	}
	c.Never = c.In == Forever
	c.Soonest, c.Latest = min(c.Soonest, c.In), max(c.Latest, c.In)
	return c
}

// when returns the first time at which a side of the guess reaches the limit.
func (m *Model) when(limit gpu.Celsius, w gpu.Watts, side func(Guess) gpu.Celsius) time.Duration {
	reached := func(d time.Duration) bool { return side(m.Ahead(d, w)) >= limit-gpu.Celsius(rounding) }
	if reached(0) {
		return 0
	}
	const finest = 100 * time.Millisecond
	end := time.Duration(8*lags[parts-1]) * time.Second
	before := time.Duration(0)
	for d := time.Second; before < end; d = min(end, d+d/4) {
		if !reached(d) {
			before = d
			continue
		}
		for d-before > finest {
			if middle := (d + before) / 2; reached(middle) {
				d = middle
			} else {
				before = middle
			}
		}
		return d.Round(finest)
	}
	return Forever
}
