package pace

import (
	"math"
	"time"
)

// use learns for how long a device works on for a lease after its processes were stopped,
// because the kernels that they queued run on.
//
// A driver measures over stretches of time, which lie partly in pauses. For each possible
// length of this tail of queued work, use computes for which part of the stretch the
// device worked for the lease, and fits the measurement to it. The slope of the fit is
// the share of the device that the lease has while it runs, beside other users of the
// device. Lengths that fit well count more than others. Old measurements fade, because
// neighbours come and go.
type use struct {
	fits [tails]fit
	xx   float64 // sum of squares of the measurements
	n    float64 // number of measurements
}

// fit is a line through the origin, by sums of products.
type fit struct{ oo, ox float64 }

const (
	memory  = 20 * time.Second      // after this time a measurement counts a third
	tails   = 26                    // number of lengths that are tried
	step    = 20 * time.Millisecond // between two of them
	likely  = 30 * time.Millisecond // length of a tail if nothing is known: two batches of kernels
	enough  = 8                     // measurements needed to say anything
	nothing = 0.02                  // share of a lease that does not use the device
	noise   = 1e-4                  // square of the rounding error of a driver
)

// add learns from one measurement. Worked returns the part of the time that the device
// worked for the lease if its tail has the given length.
func (u *use) add(length time.Duration, worked func(tail time.Duration) float64, measured float64) {
	fade := math.Exp(-float64(length) / float64(memory))
	u.xx, u.n = u.xx*fade+measured*measured, u.n*fade+1
	for i := range u.fits {
		o, f := worked(time.Duration(i)*step), &u.fits[i]
		f.oo, f.ox = f.oo*fade+o*o, f.ox*fade+o*measured
	}
}

// error returns the sum of the squares of the residuals of a fit.
func (u *use) error(f fit) float64 {
	if f.oo == 0 {
		return u.xx
	}
	return max(u.xx-f.ox*f.ox/f.oo, 0)
}

// tail returns how long the device works on after the processes were stopped, and false
// if there are too few measurements. Where several programs share a device, drivers
// report for each stretch only which of them it was for. Then the fits differ little, and
// tail returns a short one.
func (u *use) tail() (length time.Duration, known bool) {
	best := math.Inf(1)
	slope := 0.0
	for _, f := range u.fits {
		if e := u.error(f); e < best && f.oo > 0 {
			best, slope = e, f.ox/f.oo
		}
	}
	if u.n < enough || slope < nothing {
		return 0, false
	}
	variance := max(best/u.n, noise)
	sum, weights := 0.0, 0.0
	for i, f := range u.fits {
		at := float64(i) * float64(step)
		weight := math.Exp(-(u.error(f)-best)/(2*variance) - at/float64(likely))
		sum, weights = sum+at*weight, weights+weight
	}
	return time.Duration(sum / weights), true
}
