package past

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/internal/history/series"
)

func TestHalves(t *testing.T) {
	nan, stale := math.NaN(), series.Stale()
	for name, c := range map[string]struct {
		windows [][]float64
		want    half // of the last window
	}{
		"nothing":                   {[][]float64{{}}, half{Empty: true}},
		"one":                       {[][]float64{{7}}, half{Average: 7, Least: 7, Most: 7, Last: 7}},
		"several":                   {[][]float64{{10, 20, 60, 30}}, half{Average: 30, Least: 10, Most: 60, Last: 30}},
		"below zero":                {[][]float64{{-1, -3}}, half{Average: -2, Least: -3, Most: -1, Last: -3}},
		"NaN beside numbers":        {[][]float64{{nan, 4, nan, 6, nan}}, half{Average: 5, Least: 4, Most: 6, Last: 6}},
		"ended within":              {[][]float64{{4, stale}}, half{Average: 4, Least: 4, Most: 4, Last: 4}},
		"the window after the end":  {[][]float64{{4, stale}, {}}, half{Stale: true}},
		"the second after the end":  {[][]float64{{4, stale}, {}, {}}, half{Empty: true}},
		"ended in the next":         {[][]float64{{4}, {stale}}, half{Stale: true}},
		"ended, and back":           {[][]float64{{4, stale, 5}, {}}, half{Empty: true}},
		"a pause is no end":         {[][]float64{{4}, {}}, half{Empty: true}},
		"an end without a sample":   {[][]float64{{stale}}, half{Empty: true}},
		"what was before is gone":   {[][]float64{{100}, {1}}, half{Average: 1, Least: 1, Most: 1, Last: 1}},
		"infinite":                  {[][]float64{{math.Inf(1), 1}}, half{Average: math.Inf(1), Least: 1, Most: math.Inf(1), Last: 1}},
		"an average of five digits": {[][]float64{{1, 1, 2}}, half{Average: round(4. / 3), Least: 1, Most: 2, Last: 2}},
	} {
		var w window
		var got half
		for _, values := range c.windows {
			for _, v := range values {
				w.Add(v)
			}
			got = w.Close()
		}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	var w window
	w.Add(nan)
	if h := w.Close(); h.Empty || h.Stale || !math.IsNaN(h.Average) || !math.IsNaN(h.Last) {
		t.Errorf("only NaN: %+v", h)
	}
}

func TestEnd(t *testing.T) {
	for at, want := range map[int64]int64{0: 30_000, 1: 30_000, 29_999: 30_000, 30_000: 60_000, -1: 0, -30_000: 0, -30_001: -30_000, 1_700_000_000_123: 1_700_000_010_000} {
		if got := windowEnd(at); got != want {
			t.Errorf("the window of %d ends at %d, want %d", at, got, want)
		}
	}
}

func TestHalvesAreWithinWhatWasMeasured(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-1e12, 1e12), 1, 30).Draw(t, "values")
		var w window
		sum := 0.0
		for _, v := range values {
			w.Add(v)
			sum += v
		}
		h := w.Close()
		if h.Least > h.Average || h.Average > h.Most || h.Last != values[len(values)-1] {
			t.Fatalf("%+v", h)
		}
		mean := sum / float64(len(values))
		if off := math.Abs(h.Average - mean); off > 1e-5*math.Abs(mean) {
			t.Fatalf("the average is %g off %g", off, mean)
		}
	})
}
