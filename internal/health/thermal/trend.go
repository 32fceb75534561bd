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

// Course says how a temperature has changed.
type Course struct {
	Samples           int
	Min, Max, Average gpu.Opt[gpu.Celsius] // absent without points
	Slope             gpu.Opt[float64]     // °C per minute, by least squares over all points; absent below three
	Direction         Direction
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

// Trend describes the course of points, oldest first. It does not forecast: temperature
// follows power, and the course of the temperature does not tell how the power goes on.
func Trend(points []Point) Course {
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

	slope, span := line(points)
	if len(points) < fewest || span <= 0 {
		return c
	}
	c.Slope = gpu.Some(slope * 60)
	c.Direction = direction(slope*span, float64(highest-lowest))
	return c
}

// fewest is the least number of points with a slope.
const fewest = 3

// flicker is the largest change over a window that one flip of the last digit
// can cause. Sensors report whole degrees; the least-squares line through
// evenly spaced points that step from one value to the next half-way rises by
// 1.5 times the step, and every other pattern of two values by less.
const flicker = 1.5

// direction returns the direction of a line that changes by change over points that
// differ by spread at most. Two adjacent whole values are never a direction, however the
// points are spaced.
func direction(change, spread float64) Direction {
	switch {
	case spread <= 1 || math.Abs(change) <= flicker:
		return Stable
	case change > 0:
		return Rising
	}
	return Falling
}

// line fits a straight line by least squares. It returns its slope in degrees a
// second, and the seconds from the first point to the last.
func line(points []Point) (slope, span float64) {
	first, n := points[0].Time, float64(len(points))
	var meanX, meanY, xx, xy float64
	for _, p := range points {
		meanX += p.Time.Sub(first).Seconds() / n
		meanY += float64(p.Temperature) / n
	}
	for _, p := range points {
		x := p.Time.Sub(first).Seconds() - meanX
		xx += x * x
		xy += x * (float64(p.Temperature) - meanY)
	}
	if xx > 0 {
		slope = xy / xx
	}
	return slope, points[len(points)-1].Time.Sub(first).Seconds()
}
