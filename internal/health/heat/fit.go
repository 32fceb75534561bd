package heat

import "math"

// lags are the time constants of the parts of a response, in seconds.
var lags = row{0, 2, 6, 20, 50, 100, 200}

const parts = 7

// row holds one number for each lag.
type row [parts]float64

// lagged has the power in watts as each lag shows it, and the remaining share at each lag
// of the time before the first sample, from 1 down to 0.
type lagged struct {
	Watts, Start row
}

// pass lets a time at p watts pass.
func (l *lagged) pass(seconds, p float64) {
	l.decay(fades(seconds), p)
}

func (l *lagged) decay(f *row, p float64) {
	for i := range l.Watts {
		l.Watts[i] = p + (l.Watts[i]-p)*f[i]
		if l.Start[i] *= f[i]; l.Start[i] < 1e-9 {
			l.Start[i] = 0
		}
	}
}

// fades returns the remaining share at each lag after a time.
func fades(seconds float64) *row {
	var f row
	for i := 1; i < parts; i++ {
		f[i] = math.Exp(-seconds / lags[i])
	}
	return &f
}

// approach returns value after a time of following target.
func approach(value, target, seconds, lag float64) float64 {
	if lag == 0 {
		return target
	}
	return target + (value-target)*math.Exp(-seconds/lag)
}

// The times that the fit works with, in seconds.
const (
	blurred = 1.5  // below that, sensors of power and temperature disagree about when
	centred = 900  // slower changes count as changes of the surroundings
	forgets = 1200 // seconds of varied power that replace the fit
	begins  = 1800 // age at which the time before the first sample no longer matters
)

// Constants that keep the fit sober.
const (
	// stiff keeps gains apart that the samples hardly tell apart, above all those of
	// long lags, so that a rise is not taken for the beginning of a longer one.
	stiff = 4e-9

	// robust is the error in degrees from which a sample counts less.
	robust = 2

	// doubt is the evidence that a power before the first sample needs: a degree for that
	// many seconds for every hundred watts.
	doubt = 1

	// faint is the weight of a sample whose power says nothing new.
	faint = 0.05
)

// law computes a temperature from lagged powers.
type law struct {
	Gain   row     // degrees per watt
	Before float64 // watts
	Most   float64 // highest watts of any sample
	around surroundings
}

// rise returns how much lagged powers add to the surroundings.
func (w *law) rise(l *lagged) float64 {
	sum := 0.0
	for i, g := range w.Gain {
		sum += g * (l.Watts[i] + w.Before*l.Start[i])
	}
	return sum
}

// celsius returns the temperature at lagged powers.
func (w *law) celsius(l *lagged) float64 {
	return w.rise(l) + w.around.at(l.Watts[0], w.Most)
}

// fit finds how temperature follows lagged power.
//
// The power of a device before its first sample is not known. The fit assumes that the
// device has rested at some power, and looks for that power too: Before is how much
// higher it was than that of the first sample.
type fit struct {
	law
	Lagged lagged
	First  float64 // watts of the first sample
	Out    [parts]bool
	Levels [levels]level

	Blur, Centre view

	Age    float64 // seconds since the first sample
	Shaken float64 // seconds until the effect of a gap has faded
	Weight float64 // seconds that Centre is averaged over, at most centred
	Varied float64 // seconds of power away from its centre
	since  float64 // seconds of news since the last solution

	// Sums of products, of powers in hundreds of watts: of powers with each other
	// and with the start, of starts with each other, and of each with temperature.
	WW, WS, SS [parts]row
	WC, SC     row
	CC         float64
}

// view is a temperature with its lagged powers, all passed through the same filter: a
// filter leaves the gains unchanged.
type view struct {
	Celsius float64
	Lagged  lagged
}

func (v *view) towards(c float64, l *lagged, share float64) {
	v.Celsius += (c - v.Celsius) * share
	for i := range l.Watts {
		v.Lagged.Watts[i] += (l.Watts[i] - v.Lagged.Watts[i]) * share
		if v.Lagged.Start[i] += (l.Start[i] - v.Lagged.Start[i]) * share; v.Lagged.Start[i] < 1e-9 {
			v.Lagged.Start[i] = 0
		}
	}
}

func startFit(c, p float64) fit {
	f := fit{law: law{Most: p}, First: p}
	for i := range parts {
		f.Lagged.Watts[i] = p
		f.Lagged.Start[i] = 1
	}
	f.Blur = view{c, f.Lagged}
	f.Centre = f.Blur
	f.visit(1, c, p)
	f.survey()
	return f
}

// learn adds a temperature some seconds after the one before, when the power was before
// watts.
func (f *fit) learn(seconds, c, before float64, gap bool) {
	if gap {
		f.restart(seconds, c)
	}
	defer f.survey()
	f.Age += seconds
	f.Most = max(f.Most, f.Lagged.Watts[0])
	f.Shaken = max(0, f.Shaken-seconds)
	f.Weight = min(f.Weight+seconds, centred)
	f.Blur.towards(c, &f.Lagged, 1-math.Exp(-seconds/blurred))
	f.Centre.towards(f.Blur.Celsius, &f.Blur.Lagged, seconds/f.Weight)
	f.visit(seconds, c, before)
	if f.Shaken > 0 {
		return
	}
	// A sample that says little is no reason to solve for the gains again.
	told := f.Varied
	f.add(min(seconds, 10))
	if f.since += max(f.Varied-told, 0.1*seconds); f.since >= 0.9 {
		f.since = 0
		f.solve()
	}
}

// restart handles a gap. What the device did in it is not known, so a fit that has
// learned stays as it is until the gap has faded, and one that has not looks for the
// power in the gap as for the one before the first sample.
func (f *fit) restart(seconds, c float64) {
	if f.Varied > wiser {
		f.Shaken = seconds + min(seconds, fading)
		return
	}
	*f = startFit(c, f.Lagged.Watts[0])
}

// A fit has learned after wiser seconds of varied power, and the effect of a gap has
// faded after fading seconds.
const (
	wiser  = 120
	fading = 300
)

// add adds the present to the sums.
func (f *fit) add(seconds float64) {
	var w, s row
	strength := 0.0
	c := f.Blur.Celsius - f.Centre.Celsius
	off := c
	for i := range w {
		w[i] = (f.Blur.Lagged.Watts[i] - f.Centre.Lagged.Watts[i]) / 100
		s[i] = f.Blur.Lagged.Start[i] - f.Centre.Lagged.Start[i]
		strength = max(strength, w[i]*w[i])
		off -= f.Gain[i] * (w[i]*100 + f.Before*s[i])
	}
	scale := robust + math.Abs(c)/5
	// Only a sample that says something makes the fit forget: a fit from Friday is still
	// valid after a weekend of rest.
	telling := strength / (strength + 0.1)
	keep := math.Exp(-seconds / forgets * telling)
	f.Varied = f.Varied*keep + seconds*telling
	seconds *= (telling + faint) * scale / (scale + math.Abs(off))
	f.CC = f.CC*keep + c*c*seconds
	for i := range w {
		f.WC[i] = f.WC[i]*keep + w[i]*c*seconds
		f.SC[i] = f.SC[i]*keep + s[i]*c*seconds
		for j := range w {
			f.WW[i][j] = f.WW[i][j]*keep + w[i]*w[j]*seconds
			f.WS[i][j] = f.WS[i][j]*keep + w[i]*s[j]*seconds
			f.SS[i][j] = f.SS[i][j]*keep + s[i]*s[j]*seconds
		}
	}
}

// solve finds the gains, and the power before the first sample while that matters.
func (f *fit) solve() {
	best, found := f.solved(f.Before)
	if f.Before != 0 && f.absurd(&best, f.Before) {
		f.Before = 0
		best, found = f.solved(0)
	}
	if f.Age < begins {
		for _, before := range [...]float64{0, -f.First, better(f, &best)} {
			if before == f.Before {
				continue
			}
			if s, left := f.solved(before); left < 0.98*found-0.01 && !f.absurd(&s, before) {
				best, found, f.Before = s, left, before
			}
		}
	}
	f.Gain, f.Out = best.gain, best.out
}

// coolest is the lowest temperature that the surroundings can have, in degrees.
const coolest = 10

// absurd reports whether the gains, with a power before the first sample, would let the
// device melt at a power that it has drawn, or need surroundings that are too cold. A
// temperature that rises by itself, as that of a room does, can look like a device that
// warms up from a slightly lower power, and errors of one sign can look like a long rise.
// The surroundings say nothing before the power has varied: until then, the gains are as
// large as the power before is small.
func (f *fit) absurd(s *solution, before float64) bool {
	settled, around := f.Blur.Celsius, f.Centre.Celsius
	for i, g := range s.gain {
		settled += g * (f.Most - f.Blur.Lagged.Watts[i])
		around -= g * (f.Centre.Lagged.Watts[i] + before*f.Centre.Lagged.Start[i])
	}
	return settled > hottest || around < coolest && f.Varied >= seasoned
}

// better returns the best power before the first sample for fixed gains.
func better(f *fit, s *solution) float64 {
	top, bottom := 0.0, doubt/1e4
	for i, g := range s.gain {
		top += g * f.SC[i]
		for j, h := range s.gain {
			top -= g * h * 100 * f.WS[j][i]
			bottom += g * h * f.SS[i][j]
		}
	}
	return min(mostWatts, max(-f.First, top/bottom))
}

// solution is a row of gains, in degrees per watt.
type solution struct {
	gain row
	out  [parts]bool // gains that would be negative
}

// solved returns the best gains for a power before the first sample, none of them
// negative, and the error that they leave.
func (f *fit) solved(before float64) (s solution, left float64) {
	// A lagged power has the powers of the samples and the rest of the one before.
	b := before / 100
	var a [parts]row
	var y row
	for i := range parts {
		y[i] = f.WC[i] + b*f.SC[i]
		for j := range parts {
			a[i][j] = f.WW[i][j] + b*(f.WS[i][j]+f.WS[j][i]) + b*b*f.SS[i][j]
		}
		a[i][i] += stiff * f.Most * f.Most * max(1, lags[i]/20)
	}
	s.out = f.Out
	left = f.CC + doubt*b*b
	s.gain = nonnegative(&a, &y, &s.out)
	helps, most := -1, 1e-9
	for i := range parts {
		pull := y[i]
		for j, g := range s.gain {
			pull -= a[i][j] * g
		}
		left -= s.gain[i] * (y[i] + pull)
		if s.out[i] && pull > most {
			helps, most = i, pull
		}
	}
	if helps >= 0 {
		s.out[helps] = false // from the next sample on
	}
	for i := range s.gain {
		s.gain[i] = max(0, s.gain[i]) / 100
	}
	return s, left
}

// nonnegative solves a·x = y for the unknowns that are not out, and puts out those that
// would be negative.
func nonnegative(a *[parts]row, y *row, out *[parts]bool) (x row) {
	for range parts {
		x = least(a, y, out)
		worst := 0
		for i := range x {
			if x[i] < x[worst] {
				worst = i
			}
		}
		if x[worst] >= 0 {
			break
		}
		out[worst] = true
	}
	return x
}

// least solves a·x = y for the unknowns that are not out, by Cholesky's method.
func least(a *[parts]row, y *row, out *[parts]bool) (x row) {
	var l [parts]row
	var z row
	for i := range parts {
		if out[i] {
			continue
		}
		for j := 0; j <= i; j++ {
			if out[j] {
				continue
			}
			sum := a[i][j]
			for k := range j {
				sum -= l[i][k] * l[j][k]
			}
			if i == j {
				l[i][i] = math.Sqrt(max(sum, 1e-9))
			} else {
				l[i][j] = sum / l[j][j]
			}
		}
		sum := y[i]
		for k := range i {
			sum -= l[i][k] * z[k]
		}
		z[i] = sum / l[i][i]
	}
	for i := parts - 1; i >= 0; i-- {
		if out[i] {
			continue
		}
		sum := z[i]
		for k := i + 1; k < parts; k++ {
			sum -= l[k][i] * x[k]
		}
		x[i] = sum / l[i][i]
	}
	return x
}
