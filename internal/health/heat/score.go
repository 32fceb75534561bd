package heat

import (
	"math"
	"slices"
	"time"
)

// distances are how far ahead the model tests itself, in seconds.
var distances = [horizons]float64{5, 10, 30, 120, 600}

const (
	horizons = 5
	slots    = 16 // promises under way at each distance
	kept     = 150
)

// averages are the times over which the model averages power to forecast it, in seconds.
var averages = [spans]float64{0, 5, 20, 60}

const spans = 4

// ways is the number of ways to forecast a temperature without knowing the power: it
// stays, or the power stays at one of its averages.
const ways = 1 + spans

// left is the remaining share at each lag after each distance.
var left = func() (f [horizons]row) {
	for h, d := range distances {
		f[h] = *fades(d)
	}
	return f
}()

// track records how good the model was at one distance.
type track struct {
	Seen    float64       // promises that came due
	Known   record        // if the power is known
	Present record        // if it is not
	Missed  [ways]float64 // mean error of each way
	Mixed   float64       // mean error of all ways together

	promises [slots]promise
	next     int
}

// promise is a forecast that has not come due.
type promise struct {
	due            time.Time
	law            law
	lagged         lagged
	known, given   span
	ways           [ways]float64
	mixed, present float64
}

// memory is the number of promises in a mean error.
const memory = 60

// score compares the promises that have come due with the temperature.
func (m *Model) score() {
	for h := range m.tracks {
		t := &m.tracks[h]
		for i := range slots {
			p := &t.promises[(t.next+i)%slots] // the oldest first
			if p.due.IsZero() {
				continue
			}
			if p.due.After(m.at) {
				break
			}
			if m.at.Sub(p.due).Seconds() <= max(1, distances[h]/4) {
				t.settle(p, m)
			}
			p.due = time.Time{}
		}
	}
}

// settle records the error of a promise, with the power that followed and without it.
func (t *track) settle(p *promise, m *Model) {
	t.Seen++
	t.Known.take(p.miss(m), p.known)
	t.Present.take(m.Celsius-p.present, p.given)
	share := 1 / min(t.Seen, memory)
	t.Mixed += (math.Abs(m.Celsius-p.mixed) - t.Mixed) * share
	for i, c := range p.ways {
		t.Missed[i] += (math.Abs(m.Celsius-c) - t.Missed[i]) * share
	}
}

// miss returns the error of the promise, given the power that followed. Forecasts with
// old, wrong gains say nothing about the model now, so the error counts only as far as
// the present gains would have made it too.
func (p *promise) miss(m *Model) float64 {
	then := m.Celsius - p.law.celsius(&m.Fit.Lagged)
	today := then + p.law.rise(&m.Fit.Lagged) - p.law.rise(&p.lagged) - m.Fit.rise(&m.Fit.Lagged) + m.Fit.rise(&p.lagged)
	if math.Abs(today) < math.Abs(then) {
		return today
	}
	return then
}

// promise makes new forecasts, evenly over each distance.
func (m *Model) promise() {
	around := m.aroundAverages()
	for h := range m.tracks {
		t := &m.tracks[h]
		due := m.at.Add(time.Duration(distances[h] * float64(time.Second)))
		last := &t.promises[(t.next+slots-1)%slots]
		if !last.due.IsZero() && due.Sub(last.due).Seconds() < distances[h]/(slots-1)-0.01 {
			continue
		}
		p := &t.promises[t.next]
		*p = promise{due: due, law: m.Fit.law, lagged: m.Fit.Lagged, known: t.Known.span(spareKnown), given: t.Present.span(sparePresent)}
		p.ways = m.ways(&left[h], &around)
		p.mixed = t.mix(&p.ways)
		p.present = t.trust(m.Celsius, p.mixed)
		t.next = (t.next + 1) % slots
	}
}

func (m *Model) dropPromises() {
	for h := range m.tracks {
		m.tracks[h].promises = [slots]promise{}
	}
}

// aroundAverages returns the surroundings at each average of the power.
func (m *Model) aroundAverages() (c [spans]float64) {
	for k, w := range m.Recent {
		c[k] = m.Fit.around.at(w, m.Fit.Most)
	}
	return c
}

// ways returns the temperature by each way of forecasting, given the remaining share of
// the present at each lag, and the surroundings at each average of the power.
func (m *Model) ways(left *row, around *[spans]float64) (c [ways]float64) {
	c[0] = m.Celsius
	for k, w := range m.Recent {
		l := m.Fit.Lagged
		l.decay(left, w)
		c[k+1] = m.Fit.rise(&l) + around[k]
	}
	return c
}

// mix weighs the ways by how good each was.
func (t *track) mix(c *[ways]float64) float64 {
	sum, weight := 0.0, 0.0
	for i, missed := range t.Missed {
		w := 1 / ((missed + 0.2) * (missed + 0.2))
		sum += w * w * c[i]
		weight += w * w
	}
	return sum / weight
}

// trust returns the mixed forecast as far as it was better than "it stays".
func (t *track) trust(stays, mixed float64) float64 {
	if t.Seen < 5 {
		return stays
	}
	gain := 1 - t.Mixed/(t.Missed[0]+0.01)
	return stays + (mixed-stays)*min(1, max(0, 10*(gain-0.03)))
}

// rounding is the largest error of a sensor that shows whole degrees.
const rounding = 0.5

// span is the range of nine errors out of ten.
type span struct{ Low, High float64 }

// record has the errors of one kind of forecast.
type record struct {
	Misses      [kept]float64 // a ring
	Seen        int
	Under, Over float64 // added to the share of errors that each bound leaves out

	sorted [kept]float64
}

// The share of errors that a bound leaves out: one in twenty on average. If it leaves out
// more, the bound moves outwards.
const (
	outside = 0.05
	reacts  = 0.025
)

// spare is the number of outermost errors that a bound never leaves out. Errors with a
// known power need more: they come in runs, one for each program.
const (
	spareKnown   = 2
	sparePresent = 1
)

// take adds an error, and learns from whether it was within the promised span.
func (r *record) take(miss float64, promised span) {
	n := min(r.Seen, kept)
	if n == kept {
		i, _ := slices.BinarySearch(r.sorted[:], r.Misses[r.Seen%kept])
		copy(r.sorted[i:], r.sorted[i+1:])
		n--
	}
	i, _ := slices.BinarySearch(r.sorted[:n], miss)
	copy(r.sorted[i+1:n+1], r.sorted[i:n])
	r.sorted[i] = miss
	r.Misses[r.Seen%kept] = miss
	r.Seen++
	r.Under = adapt(r.Under, miss < promised.Low)
	r.Over = adapt(r.Over, miss > promised.High)
}

// sort orders the errors that were read from JSON.
func (r *record) sort() {
	r.sorted = r.Misses
	slices.Sort(r.sorted[:min(r.Seen, kept)])
}

func adapt(share float64, missed bool) float64 {
	if missed {
		share -= reacts
	}
	return min(outside, max(-2*outside, share+reacts*outside))
}

// span returns the span of the errors, with some of the outermost spared. It is wide
// while there are few errors.
func (r *record) span(spare float64) span {
	all := r.sorted[:min(r.Seen, kept)]
	if len(all) < 3 {
		return span{-5, 5}
	}
	return span{
		Low:  -outer(func(i int) float64 { return -all[i] }, len(all), outside+r.Under, spare),
		High: outer(func(i int) float64 { return all[len(all)-1-i] }, len(all), outside+r.Over, spare),
	}
}

// outer returns the value that a share of n values passes; at returns the i-th value from
// the outside.
func outer(at func(int) float64, n int, share, spare float64) float64 {
	x := share*float64(n+1) - spare
	if x <= 0 {
		return at(0) - x*(at(0)-at(n/4))/50
	}
	i := min(int(x), n-2)
	f := min(1, x-float64(i))
	return at(i)*(1-f) + at(i+1)*f
}
