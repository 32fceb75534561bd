package thermal_test

import (
	"encoding/csv"
	"math"
	"os"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/thermal"
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
	c := thermal.Trend(series(50, 52, 54, 56), thermal.Horizons()...)
	if c.Samples != 4 || c.Min != gpu.Some(gpu.Celsius(50)) || c.Max != gpu.Some(gpu.Celsius(56)) || c.Average != gpu.Some(gpu.Celsius(53)) {
		t.Errorf("min, max, average of 4: %+v", c)
	}
	if slope := c.Slope.Or(0); math.Abs(slope-120) > 1e-9 {
		t.Errorf("slope %g °C per minute, want 120", slope)
	}
	// Three seconds of a line are good for three seconds ahead, no more.
	for _, f := range c.Forecast {
		if math.Abs(float64(f.Temperature)-62) > 1e-9 {
			t.Errorf("in %v: %g °C, want 62", f.In, f.Temperature)
		}
	}
	if len(c.Forecast) != 4 {
		t.Errorf("%d forecasts, want one for each time asked", len(c.Forecast))
	}
}

func TestTrendWithoutTime(t *testing.T) {
	same := []thermal.Point{{at(0), 50}, {at(0), 60}, {at(0), 70}}
	if c := thermal.Trend(same, time.Minute); c.Slope.Known() || c.Forecast != nil || c.Direction != thermal.UnknownDirection {
		t.Errorf("three points at one time: %+v, want no slope and no forecast", c)
	}
}

func TestPoints(t *testing.T) {
	samples := []gpu.Sample{*sample(50, 1), *sample(none, 1), *sample(52, 1)}
	if got := thermal.Points(samples); len(got) != 2 || got[1].Temperature != 52 {
		t.Errorf("points %v, want 50 and 52 °C", got)
	}
}

// A card that warms up with a time constant of a minute, seen for a minute:
// the forecast knows where it ends, and a line does not.
func TestForecastArrives(t *testing.T) {
	warming := func(t float64) float64 { return 80 - 40*math.Exp(-t/60) }
	c := thermal.Trend(generate(90, warming), thermal.Horizons()...)
	for _, f := range c.Forecast {
		want := warming(89 + f.In.Seconds())
		if math.Abs(float64(f.Temperature)-want) > 2 {
			t.Errorf("in %v: %.1f °C, want %.1f", f.In, f.Temperature, want)
		}
	}
}

// Whatever the points, a forecast repeats the change seen at most once more.
func TestForecastIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := []thermal.Point{}
		now := start
		for range rapid.IntRange(3, 100).Draw(t, "points") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "step")) * time.Millisecond)
			c := rapid.IntRange(20, 100).Draw(t, "celsius")
			points = append(points, thermal.Point{Time: now, Temperature: gpu.Celsius(c)})
		}
		c := thermal.Trend(points, thermal.Horizons()...)
		spread := c.Max.Or(0) - c.Min.Or(0)
		const fit = 3 // a curve may pass a degree beside the points at either end
		for _, f := range c.Forecast {
			if !(f.Temperature >= c.Min.Or(0)-spread-fit && f.Temperature <= c.Max.Or(0)+spread+fit) {
				t.Fatalf("in %v: %g °C from points between %g and %g", f.In, f.Temperature, c.Min.Or(0), c.Max.Or(0))
			}
		}
	})
}

// On the recording of an H200 (idle, full load, idle; 1 Hz) the forecast is
// judged against the plain least-squares line through the same points, and
// against saying that nothing will change. Every window counts, those that end
// just before the load changes too: nobody can foresee that.
func TestForecastBeatsLineOnRecording(t *testing.T) {
	points := recording(t)
	for _, window := range []int{30, 60, 300} {
		for _, ahead := range []int{10, 30} {
			var curve, line, same deviation
			for i := 2; i+ahead < len(points); i++ {
				seen, truth := points[max(0, i+1-window):i+1], points[i+ahead]
				d := truth.Time.Sub(points[i].Time)
				c := thermal.Trend(seen, d)
				curve.add(c.Forecast[0].Temperature, truth)
				line.add(extrapolate(seen, c, d), truth)
				same.add(points[i].Temperature, truth)
			}
			t.Logf("window %3d s, +%d s: RMS %.2f °C; line %.2f °C; no change %.2f °C", window, ahead, curve.rms(), line.rms(), same.rms())
			if curve.rms() > 0.75*line.rms() {
				t.Errorf("window %d s, +%d s: RMS %.2f °C, the line has %.2f °C", window, ahead, curve.rms(), line.rms())
			}
			if curve.rms() > 1.01*same.rms() {
				t.Errorf("window %d s, +%d s: RMS %.2f °C, no change has %.2f °C", window, ahead, curve.rms(), same.rms())
			}
		}
	}
}

type deviation struct{ sum, n float64 }

func (e *deviation) add(got gpu.Celsius, truth thermal.Point) {
	e.sum += math.Pow(float64(got-truth.Temperature), 2)
	e.n++
}

func (e *deviation) rms() float64 { return math.Sqrt(e.sum / e.n) }

// extrapolate carries the least-squares line of c on, through the mean of its
// points.
func extrapolate(points []thermal.Point, c thermal.Course, ahead time.Duration) gpu.Celsius {
	newest, mean := points[len(points)-1].Time, 0.0
	for _, p := range points {
		mean += p.Time.Sub(newest).Minutes() / float64(len(points))
	}
	return c.Average.Or(0) + gpu.Celsius(c.Slope.Or(0)*(ahead.Minutes()-mean))
}

func recording(t *testing.T) []thermal.Point {
	t.Helper()
	f, err := os.Open("testdata/h200-load-1hz.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var points []thermal.Point
	for _, row := range rows[1:] {
		seconds, err1 := strconv.ParseFloat(row[0], 64)
		celsius, err2 := strconv.ParseFloat(row[1], 64)
		if err1 != nil || err2 != nil {
			t.Fatalf("row %q: %v %v", row, err1, err2)
		}
		points = append(points, thermal.Point{Time: start.Add(time.Duration(seconds * float64(time.Second))), Temperature: gpu.Celsius(celsius)})
	}
	return points
}
