package chunk

import "math"

// Fit learns from batches that came back what a batch costs:
//
//	seconds = call + each·records + perWeight·weight
//
// where weight is the sum of the known costs of the records, or of their
// sizes. It is least squares on running sums, so it takes the same memory
// after a million batches, and fits of several GPUs can be added up. The zero
// value knows nothing.
type Fit struct {
	count    int
	xx       [3][3]float64
	xy       [3]float64
	yy       float64
	shortest float64 // seconds of the shortest batch; no call costs more
}

// Add learns from one batch. The time of a batch of n records scatters with n, because
// each record adds its own deviation, so the batch counts 1/n.
func (f *Fit) Add(records int, weight, seconds float64) {
	if records < 1 {
		return
	}
	x := [3]float64{1, float64(records), weight}
	importance := 1 / float64(records)
	for i := range x {
		for j := range x {
			f.xx[i][j] += importance * x[i] * x[j]
		}
		f.xy[i] += importance * x[i] * seconds
	}
	f.yy += importance * seconds * seconds
	f.learnShortest(seconds)
	f.count++
}

func (f *Fit) learnShortest(seconds float64) {
	if f.count == 0 || seconds < f.shortest {
		f.shortest = seconds
	}
}

// Sum returns the combination of several fits.
func Sum(fits ...Fit) Fit {
	var sum Fit
	for _, f := range fits {
		for i := range f.xx {
			for j := range f.xx[i] {
				sum.xx[i][j] += f.xx[i][j]
			}
			sum.xy[i] += f.xy[i]
		}
		sum.yy += f.yy
		if f.count > 0 {
			sum.learnShortest(f.shortest)
		}
		sum.count += f.count
	}
	return sum
}

// Model holds the costs that a Fit has learned.
type Model struct {
	Known     bool    // whether enough batches were seen to trust the rest
	Call      float64 // seconds that a batch takes however small it is
	CallSure  float64 // lower bound of Call, given the scatter
	Each      float64 // seconds per record
	PerWeight float64 // seconds per unit of weight
	Falling   bool    // whether records of more weight surely take less time
	Usual     float64 // average records in a batch
	Varied    bool    // whether batches differed in size, so that calls and records can be told apart
}

const (
	call, each, perWeight = 0, 1, 2

	enough = 4    // batches before a model is used
	sure   = 4    // standard errors that make a difference a fact
	tiny   = 1e-9 // a share of the diagonal that keeps the equations solvable
)

// Model solves for the coefficients. A cost below zero is a sign that the data
// cannot tell coefficients apart, so such a coefficient is left out and the
// others are solved again; only a weight that clearly lowers the cost may stay
// negative.
func (f Fit) Model() Model {
	if f.count < enough {
		return Model{}
	}
	use := [3]bool{true, true, f.xx[perWeight][perWeight] > 0}
	for {
		value, spread := f.solve(use)
		worst := -1
		for i, v := range value {
			if v < 0 && use[i] && (i != perWeight || v > -sure*spread[i]) && (worst < 0 || v/spread[i] < value[worst]/spread[worst]) {
				worst = i
			}
		}
		if worst < 0 {
			return Model{
				Known: true, Call: value[call], Each: value[each], PerWeight: value[perWeight],
				CallSure: max(0, min(value[call]-sure*spread[call], f.shortest)), Falling: value[perWeight] < 0,
				Usual: f.xx[each][each] / float64(f.count), Varied: f.varied(),
			}
		}
		use[worst] = false
	}
}

// varied reports whether the sizes of batches typically differed by a third of
// their average or more.
func (f Fit) varied() bool {
	// With each batch counting 1/n, the sums are of 1/n, of 1 and of n.
	inverse, ones, sizes := f.xx[call][call], f.xx[call][each], f.xx[each][each]
	mean := ones / inverse
	return sizes/inverse-mean*mean > mean*mean/9
}

// solve returns the coefficients in use and their standard errors. The columns
// are scaled to one another first, because weights may be in the millions.
func (f Fit) solve(use [3]bool) (value, spread [3]float64) {
	var a, inverse [3][3]float64
	var scale [3]float64
	for i := range a {
		scale[i] = 1
		if use[i] {
			scale[i] = 1 / math.Sqrt(f.xx[i][i])
		}
	}
	for i := range a {
		inverse[i][i] = 1
		for j := range a {
			if use[i] && use[j] {
				a[i][j] = f.xx[i][j] * scale[i] * scale[j]
			}
		}
		a[i][i] = 1 + tiny
	}
	invert(&a, &inverse)
	for i := range value {
		for j := range value {
			if use[i] && use[j] {
				value[i] += inverse[i][j] * scale[i] * scale[j] * f.xy[j]
			}
		}
	}
	residual := f.yy
	for i := range value {
		residual -= value[i] * f.xy[i]
	}
	// Clocks are not better than a percent: data without scatter that cannot
	// tell two coefficients apart must not look certain.
	variance := max(residual/float64(max(f.count-3, 1)), 1e-4*f.yy/float64(f.count))
	for i := range spread {
		if use[i] {
			spread[i] = math.Sqrt(variance*max(inverse[i][i], 0)) * scale[i]
		}
	}
	return value, spread
}

// invert turns a into the unit matrix and the unit matrix in b into the
// inverse, by elimination. The matrix is positive, with ones on its diagonal.
func invert(a, b *[3][3]float64) {
	for i := range a {
		pivot := max(a[i][i], tiny)
		for j := range a {
			a[i][j] /= pivot
			b[i][j] /= pivot
		}
		for k := range a {
			if k == i {
				continue
			}
			factor := a[k][i]
			for j := range a {
				a[k][j] -= factor * a[i][j]
				b[k][j] -= factor * b[i][j]
			}
		}
	}
}

// Total returns the expected seconds of many records, in batches of the usual size.
func (m Model) Total(records int, weight float64) float64 {
	batches := math.Ceil(float64(records) / max(m.Usual, 1))
	return m.Seconds(records, weight) + m.Call*max(batches-1, 0)
}

// Seconds returns the expected seconds of a batch.
func (m Model) Seconds(records int, weight float64) float64 {
	return max(m.Call+m.Each*float64(records)+m.PerWeight*weight, 1e-7*float64(records))
}
