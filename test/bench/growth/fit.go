package main

import (
	"math"
	"time"
)

// point is what something costs at a number.
type point struct {
	n    float64
	cost time.Duration
}

// curve is how the cost of one thing grows.
type curve struct {
	name   string
	kind   kind
	points []point // by number, the least first
}

// kind says what a cost is for, and so how it may grow.
type kind int

const (
	// call is one operation of one user. There may be as many as there are things, so
	// each may grow like log n.
	call kind = iota
	// whole is what is about all of them at once, such as a list. It may grow like n log n.
	whole
	// pairs is what is about every two of them: the links of devices. It may grow like n².
	pairs
)

// most returns the largest exponent. Between a hundredth of 10,000 and 10,000, log n grows
// with the power 0.15; what is above that is for the noise of the machine.
func (k kind) most() float64 {
	return [...]float64{call: 0.3, whole: 1.25, pairs: 2.1}[k]
}

// exponent returns the slope of the upper part of a curve, where both axes are logarithmic:
// of the points from a hundredth of the largest number on, by least squares. It is not known
// with fewer than three of them, and has two decimals.
func exponent(points []point) (slope float64, known bool) {
	if len(points) == 0 {
		return 0, false
	}
	last := points[len(points)-1].n
	var n, x, y, xx, xy float64
	for _, p := range points {
		if p.n < last/100*0.99 || p.cost <= 0 {
			continue
		}
		lx, ly := math.Log(p.n), math.Log(p.cost.Seconds())
		n, x, y, xx, xy = n+1, x+lx, y+ly, xx+lx*lx, xy+lx*ly
	}
	bottom := n*xx - x*x
	if n < 3 || bottom <= 0 {
		return 0, false
	}
	return math.Round((n*xy-x*y)/bottom*100)/100 + 0, true // + 0: of a flat curve it is not -0
}
