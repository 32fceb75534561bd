package figure

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestWhatIsSaidIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "figures")
	t.Setenv(Variable, path)
	Say("acquire, 1 client", 68.25, "µs", Less)
	Say("berth ÷ Redis", 1.4, "ratio", More)
	zero := 0.0
	Say("nothing was measured", zero/zero, "ratio", More)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := Read(f)
	want := []Figure{{"acquire, 1 client", 68.25, "µs", Less}, {"berth ÷ Redis", 1.4, "ratio", More}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v and %v, want %v", got, err, want)
	}
}

func TestLinesThatAreNoFigures(t *testing.T) {
	for _, fields := range [][]string{{"a", "1", "s"}, {"a", "x", "s", "less"}, {"a", "NaN", "s", "less"}, {"a", "1", "s", "best"}} {
		if f, err := Parse(fields); err == nil {
			t.Errorf("%q is read as %v", fields, f)
		}
	}
}

func TestQuantile(t *testing.T) {
	values := []int{5, 1, 4, 2, 3}
	for q, want := range map[float64]int{0: 1, 0.5: 3, 0.99: 5, 1: 5} {
		if got := Quantile(values, q); got != want {
			t.Errorf("the quantile %v is %d, want %d", q, got, want)
		}
	}
	if got := Quantile([]int(nil), 0.5); got != 0 {
		t.Errorf("the median of nothing is %d", got)
	}
}
