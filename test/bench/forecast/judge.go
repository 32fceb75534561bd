package main

import (
	"math"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/health/heat"
	"github.com/berth-gpu/berth/test/bench/forecast/trace"
)

// The distances that are judged, and how long a model learns before.
var distances = [...]time.Duration{5 * time.Second, 10 * time.Second, 30 * time.Second}

const learning = 2 * time.Minute

// What a forecast has to be.
const (
	mostError   = 2.0  // °C on average at 10 and 30 s, given the power that followed
	worseShare  = 0.10 // than "it stays", without it
	worseLeast  = 0.3  // °C
	heldLeast   = 0.85 // of the time, by the 90 % interval
	heldMost    = 0.95
	reachWithin = 0.10 // of the time from the start of a load to the threshold
)

// row is what was found at one distance: mean errors in °C, and how often each
// interval held.
type row struct {
	ahead                       time.Duration
	forecasts                   int
	known, present, stays, line float64
	knownHeld, presentHeld      float64
}

// judge feeds points to a model as the monitor would, and asks it once a second.
func judge(points []trace.Point) []row {
	rows := make([]row, len(distances))
	for k, d := range distances {
		rows[k].ahead = d
	}
	var m heat.Model
	next := points[0].At + learning
	for i, p := range points {
		m.Learn(clock(p.At), p.Temperature, p.Power)
		if p.At < next || !m.Ready() || !p.Temperature.Known() {
			continue
		}
		next += time.Second
		for k := range rows {
			rows[k].ask(&m, points, i)
		}
	}
	for k := range rows {
		rows[k].average()
	}
	return rows
}

func clock(at time.Duration) time.Time { return time.Unix(1_700_000_000, 0).Add(at) }

// early is how much earlier than asked for a sample may come: recordings tick
// unevenly.
const early = 50 * time.Millisecond

// ask compares every forecast at point i with what came.
func (r *row) ask(m *heat.Model, points []trace.Point, i int) {
	var steps []heat.Step
	j := i
	for ; points[j].At < points[i].At+r.ahead-early; j++ {
		if j+1 == len(points) {
			return
		}
		w, ok := points[j+1].Power.Get()
		if !ok {
			return
		}
		steps = append(steps, heat.Step{For: points[j+1].At - points[j].At, Power: w})
	}
	came, ok := points[j].Temperature.Get()
	if !ok {
		return
	}
	r.forecasts++
	off := func(c gpu.Celsius) float64 { return math.Abs(float64(came - c)) }
	held := func(g heat.Guess) float64 {
		if g.Low <= came && came <= g.High {
			return 1
		}
		return 0
	}
	known, present := m.Along(steps...), m.Present(r.ahead)
	r.known += off(known.Mean)
	r.knownHeld += held(known)
	r.present += off(present.Mean)
	r.presentHeld += held(present)
	r.stays += off(points[i].Temperature.Or(0))
	r.line += off(line(points[:i+1], r.ahead))
}

func (r *row) average() {
	for _, sum := range []*float64{&r.known, &r.present, &r.stays, &r.line, &r.knownHeld, &r.presentHeld} {
		*sum /= float64(max(1, r.forecasts))
	}
}

// line returns where a straight line through the last ten seconds leads.
func line(points []trace.Point, ahead time.Duration) gpu.Celsius {
	now := points[len(points)-1].At
	var n, x, y, xx, xy float64
	for i := len(points) - 1; i >= 0 && now-points[i].At <= 10*time.Second; i-- {
		c, ok := points[i].Temperature.Get()
		if !ok {
			continue
		}
		t := (points[i].At - now).Seconds()
		n, x, y, xx, xy = n+1, x+t, y+float64(c), xx+t*t, xy+t*float64(c)
	}
	if bottom := n*xx - x*x; bottom > 0 {
		slope := (n*xy - x*y) / bottom
		return gpu.Celsius((y-slope*x)/n + slope*ahead.Seconds())
	}
	return points[len(points)-1].Temperature.Or(0)
}

// verdict is one claim and whether it holds.
type verdict struct {
	claim string
	holds bool
	found string
}

// verdicts holds rows against the claims.
func verdicts(rows []row) []verdict {
	var all []verdict
	var known, present, n float64
	for _, r := range rows {
		in := "in " + r.ahead.String() + ": "
		if r.ahead >= 10*time.Second {
			all = append(all, verdict{in + "at most 2.0 °C off, given the power that followed", r.known <= mostError, celsius(r.known)})
		}
		limit := r.stays + max(worseShare*r.stays, worseLeast)
		all = append(all, verdict{in + "without it, at most 10 % or 0.3 °C worse than \"it stays\"", r.present <= limit, celsius(r.present) + ", " + celsius(r.stays)})
		known += r.knownHeld * float64(r.forecasts)
		present += r.presentHeld * float64(r.forecasts)
		n += float64(r.forecasts)
	}
	n = max(1, n)
	within := func(share float64) bool { return share >= heldLeast && share <= heldMost }
	return append(all,
		verdict{"the 90 % interval holds 85 to 95 % of the time, given the power", within(known / n), percent(known / n)},
		verdict{"the 90 % interval holds 85 to 95 % of the time, without it", within(present / n), percent(present / n)})
}
