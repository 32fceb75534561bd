package term

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSpark(t *testing.T) {
	if got, want := Spark([]float64{-5, 0, 50, math.NaN(), 100, 900}, 0, 100), "▁▁▅ ██"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Spark([]float64{1, 2}, 5, 5); got != "▁▁" {
		t.Errorf("without a range: %q", got)
	}
}

func TestArea(t *testing.T) {
	for _, c := range []struct {
		values []float64
		lines  int
		want   string
	}{
		{[]float64{0, 100}, 1, "⣸"},
		{[]float64{100, 100, 50, math.NaN()}, 2, "⣿ |⣿⡇"},
		{[]float64{math.NaN(), math.NaN()}, 1, " "},
		{[]float64{100}, 1, "⡇"},
	} {
		if got := strings.Join(Area(c.values, 0, 100, c.lines), "|"); got != c.want {
			t.Errorf("%v: %q, want %q", c.values, got, c.want)
		}
	}
}

// A curve has the size that was asked for, whatever it shows.
func TestCurvesFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64(), 0, 40).Draw(t, "values")
		lines := rapid.IntRange(1, 4).Draw(t, "lines")
		if got := Columns(Spark(values, 0, 1)); got != len(values) {
			t.Fatalf("the spark has %d columns for %d values", got, len(values))
		}
		picture := Area(values, 0, 1, lines)
		for _, line := range picture {
			if got := Columns(line); got != (len(values)+1)/2 {
				t.Fatalf("a line has %d columns for %d values", got, len(values))
			}
		}
		if len(picture) != lines {
			t.Fatalf("%d lines", len(picture))
		}
	})
}
