package thermal

import "math"

// fewest is the number of points below which nothing is fitted.
const fewest = 3

// curve is a + b·u, where u is the time itself for a line (tau 0), and
// exp(−t/tau), t counted from the oldest point, for an approach to a.
type curve struct {
	a, b, tau float64
	span      float64 // seconds from the oldest point to the newest
	square    float64 // sum of the squared distances to the points
	farthest  float64 // largest distance to a point
}

// forecast returns the temperature as a function of the seconds after the
// newest point.
//
// A device under constant power approaches its final temperature
// exponentially, and a change of load starts a new approach. So a curve is
// fitted to the longest recent stretch that one curve explains, and a straight
// line, which never arrives, is used only where the points show no bend.
// Where no curve explains even the newest few points, the load has just
// changed, and the newest value is the best guess.
//
// What comes out is bounded by what was seen: an approach is believed only if
// its time constant is no longer than the stretch, and a line is carried no
// farther ahead than the stretch reaches back. Either can thus at most repeat
// the change of the stretch once more.
func forecast(xs, ys []float64) func(ahead float64) float64 {
	c, ok := recent(xs, ys)
	switch {
	case !ok:
		return func(float64) float64 { return ys[len(ys)-1] }
	case c.tau == 0 && math.Abs(c.b*c.span) <= flicker:
		return func(float64) float64 { return c.at(0) }
	case c.tau == 0:
		return func(ahead float64) float64 { return c.at(min(ahead, c.span)) }
	}
	return c.at
}

// recent fits the longest of the stretches all, half, a quarter, … up to the
// newest point whose best curve passes every point within one degree, the
// resolution of the sensors. ok is false if there is none.
func recent(xs, ys []float64) (c curve, ok bool) {
	for xs[0] < 0 {
		if c = best(xs, ys); c.farthest <= 1 {
			return c, true
		}
		if len(xs) == fewest {
			break
		}
		n := max(len(xs)/2, fewest)
		xs, ys = xs[len(xs)-n:], ys[len(ys)-n:]
	}
	return c, false
}

// best returns the approach that fits best, or the line unless the approach is
// clearly better: rounded readings fit some curve a little better by chance.
func best(xs, ys []float64) curve {
	const clearly = 0.8
	line := fit(xs, ys, 0)
	found := line
	for tau := line.span; tau >= line.span/32; tau /= math.Sqrt2 {
		if c := fit(xs, ys, tau); c.square < found.square {
			found = c
		}
	}
	if found.square < clearly*line.square {
		return found
	}
	return line
}

// fit finds a and b by least squares.
func fit(xs, ys []float64, tau float64) curve {
	c := curve{tau: tau, span: -xs[0]}
	var meanU, meanY, uu, uy float64
	for i := range xs {
		meanU += c.basis(xs[i])
		meanY += ys[i]
	}
	meanU, meanY = meanU/float64(len(xs)), meanY/float64(len(xs))
	for i := range xs {
		du := c.basis(xs[i]) - meanU
		uu += du * du
		uy += du * (ys[i] - meanY)
	}
	if uu > 0 {
		c.b = uy / uu
	}
	c.a = meanY - c.b*meanU
	for i := range xs {
		distance := math.Abs(ys[i] - c.at(xs[i]))
		c.square += distance * distance
		c.farthest = max(c.farthest, distance)
	}
	return c
}

// at returns the value at x seconds after the newest point.
func (c curve) at(x float64) float64 { return c.a + c.b*c.basis(x) }

func (c curve) basis(x float64) float64 {
	if c.tau == 0 {
		return x
	}
	return math.Exp(-(x + c.span) / c.tau)
}
