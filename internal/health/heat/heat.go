// Package heat models the temperature of a GPU as a function of its power.
//
// Temperature follows power, so a forecast is a question about power: what will the
// temperature be if the power stays the same, or changes to a given number of watts. A
// Model learns the answer for one device while it runs. It assumes that the temperature
// is
//
//	surroundings + gain·lagged power + gain·lagged power + …
//
// where the lags are a fixed row, from none at all to several minutes, and no gain is
// negative. A server GPU puts its weight on the short lags and a card in a case on the
// long ones: the fit finds out. The surroundings drift, and the model keeps them for each
// level of power that the device has drawn: programs that draw the same power can warm it
// more or less, and a program is known by its power when it returns.
//
// A Model also records its errors, at several distances, and answers with an interval as
// wide as its errors were.
//
// Pure: no clock, no I/O.
package heat

import (
	"math"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Which samples the model believes.
const (
	coldest, hottest = 0, 130 // degrees; a sensor that fails reads 0 or 255
	mostWatts        = 5000
	leap             = 35 // degrees between two samples; a larger step is believed only if it lasts
	leaps            = 5  // samples after which a leap is believed
	setBack          = 3  // samples after which a clock that went back is believed
	blind            = 15 // seconds without power after which the model knows nothing
)

// enough is how long a model learns before it answers, in seconds.
const enough = 60

// Model knows how the temperature of one device follows its power. The zero value is
// ready to learn. A Model is a plain value: a copy is independent, and its JSON has what
// it has learned.
type Model struct {
	at    time.Time // of the newest sample; zero before the first one
	asked time.Time // of the newest call of Learn, with or without a power
	every float64   // seconds between samples, on average
	learnt
	tracks [horizons]track

	wild, back int // samples in a row that leapt, or whose time went back
}

// learnt is the knowledge of a model after its newest sample.
type learnt struct {
	Celsius float64
	Watts   float64
	Least   float64        // watts
	Most    float64        // watts
	Coldest float64        // degrees; 0 if not known
	Seconds float64        // time of learning
	Recent  [spans]float64 // watts, averaged
	Vernier vernier
	Fit     fit
}

// Learn adds a sample. It ignores a temperature or a power that cannot be true, and a
// time that is not later than the last one.
func (m *Model) Learn(at time.Time, t gpu.Opt[gpu.Celsius], w gpu.Opt[gpu.Watts]) {
	celsius, hot := t.Get()
	watts, powered := w.Get()
	c, p := float64(celsius), float64(watts)
	if at.After(m.asked) {
		m.asked = at
	}
	if !hot || !powered || !(c > coldest && c < hottest) || !(p >= 0 && p < mostWatts) {
		return
	}
	if m.at.IsZero() {
		m.start(at, c, p)
		return
	}
	seconds := at.Sub(m.at).Seconds()
	if seconds <= 0 {
		if m.back++; m.back < setBack {
			return
		}
		m.at, m.asked, m.back = at, at, 0 // somebody set the clock
		m.dropPromises()
		return
	}
	m.back = 0
	if math.Abs(c-m.Celsius) > leap {
		if m.wild++; m.wild < leaps {
			return
		}
	}
	m.wild = 0
	m.pass(at, seconds, c, p)
}

func (m *Model) start(at time.Time, c, p float64) {
	m.at = at
	m.learnt = learnt{Celsius: c, Watts: p, Least: p, Most: p, Coldest: c, Vernier: vernier{Shown: c}, Fit: startFit(c, p)}
	for i := range m.Recent {
		m.Recent[i] = p
	}
}

// pass lets time pass, at the end of which the device has c degrees and draws p watts.
func (m *Model) pass(at time.Time, seconds, c, p float64) {
	gap := m.every > 0 && seconds > max(10*m.every, 20)
	if gap {
		m.dropPromises()
	} else if m.every == 0 {
		m.every = seconds
	} else {
		m.every += (seconds - m.every) / 20
	}
	before := m.Watts
	m.at, m.Celsius, m.Watts = at, c, p
	m.Least, m.Most = min(m.Least, p), max(m.Most, p)
	if m.Coldest == 0 || c < m.Coldest {
		m.Coldest = c
	}
	m.Seconds += min(seconds, 10)
	if seconds > 3 {
		// A sensor covers the last second at most: of the time before it, the first half
		// goes to the old power.
		m.draw(seconds/2, before)
		m.draw(seconds/2, p)
	} else {
		m.draw(seconds, p)
	}
	m.Fit.learn(seconds, m.Vernier.read(c, seconds), before, gap)
	m.score()
	m.promise()
}

// draw lets a device draw p watts for a time.
func (m *Model) draw(seconds, p float64) {
	m.Fit.Lagged.pass(seconds, p)
	for i := range m.Recent {
		m.Recent[i] = approach(m.Recent[i], p, seconds, averages[i])
	}
}

// Ready reports whether the model can answer: it has learned for a minute, and the device
// reports its power.
func (m *Model) Ready() bool {
	return m.Seconds >= enough && m.asked.Sub(m.at).Seconds() <= max(blind, 3*m.every)
}

// seasoned is how long the power must have varied before berth acts on a forecast, in
// seconds.
const seasoned = 60

// Seasoned reports whether the model has seen the power vary for a minute. Before that, a
// room that warms up looks like a device that does: its answers are good to look at, and
// nobody should act on them.
func (m *Model) Seasoned() bool { return m.Fit.Varied >= seasoned }

// Measured reports whether a forecast for w watts that ends at c degrees is within what the
// model has measured: a device that has drawn so little, and was so cold. Beyond that, the
// model would draw its line on into a room that it has never seen.
func (m *Model) Measured(w gpu.Watts, c gpu.Celsius) bool {
	const nearly = 1 // degree
	margin := sameLevel * m.Most
	return float64(w) >= m.Least-margin && float64(w) <= m.Most+margin && float64(c) >= m.Coldest-nearly
}

// Power returns the present power of the device. It is absent before the first sample and
// while the device does not report it.
func (m *Model) Power() gpu.Opt[gpu.Watts] {
	if m.at.IsZero() || m.asked.Sub(m.at).Seconds() > max(blind, 3*m.every) {
		return gpu.Opt[gpu.Watts]{}
	}
	return gpu.Some(gpu.Watts(m.Recent[1]))
}
