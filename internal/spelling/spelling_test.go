package spelling

import (
	"strings"
	"testing"
)

func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"torch", "torch", 0}, {"", "cupy", 4}, {"cupy", "", 4},
		{"troch", "torch", 2}, {"numpyy", "numpy", 1}, {"kitten", "sitting", 3},
		{strings.Repeat("a", 1<<20), strings.Repeat("a", 70), 0},
	} {
		if got := Distance(test.a, test.b); got != test.want {
			t.Errorf("Distance(%.10q, %.10q) = %d, want %d", test.a, test.b, got, test.want)
		}
		if back := Distance(test.b, test.a); back != test.want {
			t.Errorf("the other way round it is %d, want %d", back, test.want)
		}
	}
}
