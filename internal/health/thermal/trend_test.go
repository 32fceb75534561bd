package thermal_test

import (
	"math"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/health/thermal"
)

// series makes points one second apart.
func series(celsius ...float64) []thermal.Point {
	points := make([]thermal.Point, len(celsius))
	for i, c := range celsius {
		points[i] = thermal.Point{Time: at(i), Temperature: gpu.Celsius(c)}
	}
	return points
}

// generate makes n points a second apart from a formula, rounded like a sensor.
func generate(n int, f func(t float64) float64) []thermal.Point {
	celsius := make([]float64, n)
	for i := range celsius {
		celsius[i] = math.Round(f(float64(i)))
	}
	return series(celsius...)
}

func TestTrendDirection(t *testing.T) {
	ramp := func(perMinute float64) func(float64) float64 {
		return func(t float64) float64 { return 50 + perMinute*t/60 }
	}
	for name, c := range map[string]struct {
		points []thermal.Point
		want   thermal.Direction
	}{
		"nothing":                    {nil, thermal.UnknownDirection},
		"one":                        {series(50), thermal.UnknownDirection},
		"two":                        {series(50, 60), thermal.UnknownDirection},
		"constant":                   {series(50, 50, 50, 50), thermal.Stable},
		"flickering":                 {series(61, 62, 61, 62, 61, 62, 62), thermal.Stable},
		"one flip of the last digit": {generate(60, func(t float64) float64 { return 61 + math.Floor(t/30) }), thermal.Stable},
		"up":                         {generate(60, ramp(5)), thermal.Rising},
		"down":                       {generate(60, ramp(-5)), thermal.Falling},
		"hardly up":                  {generate(60, ramp(1)), thermal.Stable},
		"hardly up, for long":        {generate(300, ramp(1)), thermal.Rising},
		"a load that came and went":  {generate(60, func(t float64) float64 { return 50 + 20*math.Sin(math.Pi*t/59) }), thermal.Stable},
	} {
		if got := thermal.Trend(c.points).Direction; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestTrendNumbers(t *testing.T) {
	c := thermal.Trend(series(50, 52, 54, 56))
	if c.Samples != 4 || c.Min != gpu.Some(gpu.Celsius(50)) || c.Max != gpu.Some(gpu.Celsius(56)) || c.Average != gpu.Some(gpu.Celsius(53)) {
		t.Errorf("min, max, average of 4: %+v", c)
	}
	if slope := c.Slope.Or(0); math.Abs(slope-120) > 1e-9 {
		t.Errorf("slope %g °C per minute, want 120", slope)
	}
}

func TestTrendWithoutTime(t *testing.T) {
	same := []thermal.Point{{at(0), 50}, {at(0), 60}, {at(0), 70}}
	if c := thermal.Trend(same); c.Slope.Known() || c.Direction != thermal.UnknownDirection {
		t.Errorf("three points at one time: %+v, want no slope", c)
	}
}

// Samples without a temperature, and those of a sensor that fails, are no points.
func TestPoints(t *testing.T) {
	samples := []gpu.Sample{*sample(50, 1), *sample(none, 1), *sample(0, 1), *sample(255, 1), *sample(52, 1)}
	if got := thermal.Points(samples); len(got) != 2 || got[1].Temperature != 52 {
		t.Errorf("points %v, want 50 and 52 °C", got)
	}
}
