package tui

import (
	"math"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// window is how far back curves go.
const window = 5 * time.Minute

// point is the part of a sample that a curve needs. Values that were not measured are
// NaN.
type point struct {
	at                               time.Time
	load, memory, temperature, power float64
}

// curve has the points of a device in the last minutes, oldest first.
type curve []point

// pointOf returns the point of a sample.
func pointOf(s gpu.Sample) point {
	return point{s.Time, number(s.Utilization), number(s.MemoryPercent()), number(s.Temperature), number(s.Power)}
}

func number[T ~float64](v gpu.Opt[T]) float64 { return float64(v.Or(T(math.NaN()))) }

// add inserts a sample into a curve in order, and drops points that are too old. A
// clock that was set back begins a new curve: the points ahead of it would never leave.
func (c curve) add(p point) curve {
	if n := len(c); n > 0 && c[n-1].at.Sub(p.at) > window {
		c = nil
	}
	at, there := slices.BinarySearchFunc(c, p, func(a, b point) int { return a.at.Compare(b.at) })
	if !there {
		c = slices.Insert(c, at, p)
	}
	first := slices.IndexFunc(c, func(old point) bool { return c[len(c)-1].at.Sub(old.at) <= window+time.Minute })
	return slices.Delete(c, 0, first)
}

// values returns n averages over the window that ends now. A value that was not
// measured again stays for a while, and then becomes NaN. The borders between the
// averages are fixed in time, so that a curve moves and does not tremble.
func (c curve) values(n int, now time.Time, of func(point) float64) []float64 {
	const lasts = 12 * time.Second
	if n <= 0 {
		return nil
	}
	list := make([]float64, n)
	step := window / time.Duration(n)
	end := now.Truncate(step).Add(step)
	sums, counts := make([]float64, n), make([]int, n)
	for _, p := range c {
		v := of(p)
		if i := n - 1 - int(math.Floor(float64(end.Sub(p.at))/float64(step))); i >= 0 && i < n && !math.IsNaN(v) {
			sums[i], counts[i] = sums[i]+v, counts[i]+1
		}
	}
	last, empty := math.NaN(), 0
	for i := range list {
		if counts[i] > 0 {
			last, empty = sums[i]/float64(counts[i]), 0
		} else if empty++; time.Duration(empty)*step > max(lasts, step) {
			last = math.NaN()
		}
		list[i] = last
	}
	return list
}

func loadOf(p point) float64        { return p.load }
func memoryOf(p point) float64      { return p.memory }
func temperatureOf(p point) float64 { return p.temperature }
func powerOf(p point) float64       { return p.power }
