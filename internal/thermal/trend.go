package thermal

import (
	"math"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Point is a temperature at a time.
type Point struct {
	Time        time.Time
	Temperature gpu.Celsius
}

// Points returns the temperatures of samples. It skips samples without one.
func Points(samples []gpu.Sample) []Point {
	points := make([]Point, 0, len(samples))
	for i := range samples {
		if v, ok := Temperature(&samples[i]); ok {
			points = append(points, Point{samples[i].Time, v})
		}
	}
	return points
}

// Course says how a temperature has changed, and where it goes if nothing
// changes.
type Course struct {
	Samples           int
	Min, Max, Average gpu.Opt[gpu.Celsius] // absent without points
	Slope             gpu.Opt[float64]     // °C per minute, by least squares over all points; absent below three
	Direction         Direction
	Forecast          []Forecast // empty where the slope is absent
}

// Direction is the sense of a course.
type Direction string

// The directions.
const (
	Rising           Direction = "rising"
	Falling          Direction = "falling"
	Stable           Direction = "stable"
	UnknownDirection Direction = "unknown"
)

// Forecast is a temperature to come, counted from the newest point.
type Forecast struct {
	In          time.Duration
	Temperature gpu.Celsius
}

// Horizons are the usual times to forecast for.
func Horizons() []time.Duration {
	return []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute}
}

// Trend describes the course of points, oldest first, and forecasts it for
// each time ahead.
func Trend(points []Point, ahead ...time.Duration) Course {
	c := Course{Samples: len(points), Direction: UnknownDirection}
	if len(points) == 0 {
		return c
	}
	lowest, highest, sum := points[0].Temperature, points[0].Temperature, 0.0
	for _, p := range points {
		lowest, highest = min(lowest, p.Temperature), max(highest, p.Temperature)
		sum += float64(p.Temperature)
	}
	c.Min, c.Max = gpu.Some(lowest), gpu.Some(highest)
	c.Average = gpu.Some(gpu.Celsius(sum / float64(len(points))))

	xs, ys := axes(points)
	if len(xs) < fewest || xs[0] >= 0 {
		return c
	}
	line := fit(xs, ys, 0)
	c.Slope = gpu.Some(line.b * 60)
	c.Direction = line.direction(float64(highest - lowest))
	at := forecast(xs, ys)
	for _, d := range ahead {
		c.Forecast = append(c.Forecast, Forecast{d, gpu.Celsius(at(d.Seconds()))})
	}
	return c
}

// flicker is the largest change over a window that one flip of the last digit
// can cause. Sensors report whole degrees; the least-squares line through
// evenly spaced points that step from one value to the next half-way rises by
// 1.5 times the step, and every other pattern of two values by less.
const flicker = 1.5

// direction returns the direction of a line over points that differ by spread
// at most. Two adjacent whole values are never a direction, however the points
// are spaced.
func (c curve) direction(spread float64) Direction {
	change := c.b * c.span
	switch {
	case spread <= 1 || math.Abs(change) <= flicker:
		return Stable
	case change > 0:
		return Rising
	}
	return Falling
}

// axes returns the times of points in seconds (the newest is 0, all others
// before it) and their degrees.
func axes(points []Point) (xs, ys []float64) {
	newest := points[len(points)-1].Time
	xs, ys = make([]float64, len(points)), make([]float64, len(points))
	for i, p := range points {
		xs[i], ys[i] = p.Time.Sub(newest).Seconds(), float64(p.Temperature)
	}
	return xs, ys
}
