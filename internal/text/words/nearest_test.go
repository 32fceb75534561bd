package words

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
		{"troch", "torch", 1}, {"ab", "ba", 1}, {"ca", "abc", 3}, {"numpyy", "numpy", 1}, {"kitten", "sitting", 3},
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

func TestNearest(t *testing.T) {
	keys := []string{"name", "input", "output_mb", "output", "count", "memory_mb", "least_loaded"}
	for _, test := range []struct {
		word string
		want string
		near bool
	}{
		{"nmae", "name", true},
		{"NAME", "name", true},
		{"out", "output", true},    // though count differs from it in two letters only
		{"mem", "memory_mb", true}, // the beginning of a name is near, however long that is
		{"least-laoded", "least_loaded", true},
		{"throughput", "output", false},
		{"", "name", false},
		{"eman", "name", false},
		{"coutn", "count", true},
		{"game", "name", true},
		{"gone", "name", false}, // half of a short word
		{"x", "name", false},    // a word of which no letter is right is near nothing
	} {
		if got, near := Nearest(test.word, keys); got != test.want && near || near != test.near {
			t.Errorf("Nearest(%q) = %q, %v, want %q, %v", test.word, got, near, test.want, test.near)
		}
	}
	if got, near := Nearest("name", nil); got != "" || near {
		t.Errorf("of no names it is %q, %v", got, near)
	}
	if got := Suggest("nmae", keys, "see the manual"); got != "did you mean name?" {
		t.Errorf("Suggest = %q", got)
	}
	if got := Suggest("zebra crossing", keys, "see the manual"); got != "see the manual" {
		t.Errorf("Suggest = %q", got)
	}
}
