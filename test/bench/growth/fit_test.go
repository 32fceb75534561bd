package main

import (
	"encoding/xml"
	"io"
	"math"
	"strings"
	"testing"
	"time"
)

// grown makes a curve of a function.
func grown(cost func(n float64) float64) []point {
	var list []point
	for n := 1.0; n <= 10_000; n *= 10 {
		list = append(list, point{n, time.Duration(cost(n) * 1e6)})
	}
	return list
}

func TestExponent(t *testing.T) {
	for _, c := range []struct {
		name string
		cost func(n float64) float64
		want float64
		kind kind
		good bool
	}{
		{"the same", func(float64) float64 { return 7 }, 0, call, true},
		{"log n", func(n float64) float64 { return 5 * math.Log(n+1) }, 0.15, call, true},
		{"n for one of n", func(n float64) float64 { return n }, 1, call, false},
		{"n", func(n float64) float64 { return 3 * n }, 1, whole, true},
		{"n log n", func(n float64) float64 { return n * math.Log(n+1) }, 1.15, whole, true},
		{"n² that begins late", func(n float64) float64 { return 500 + n*n/10 }, 1.91, whole, false},
		{"n²", func(n float64) float64 { return n * n }, 2, whole, false},
	} {
		got, known := exponent(grown(c.cost))
		if !known || math.Abs(got-c.want) > 0.02 || (got <= c.kind.most()) != c.good {
			t.Errorf("%s: the exponent is %.3f (%v), want %.2f, good %v", c.name, got, known, c.want, c.good)
		}
	}
	for _, few := range [][]point{nil, {{1, 1}, {10, 2}}, {{1, 1}, {10, 1}, {100, 0}, {1000, 5}}} {
		if got, known := exponent(few); known {
			t.Errorf("of %v the exponent is %v", few, got)
		}
	}
}

func TestPictureIsXML(t *testing.T) {
	curves := []curve{{"acquire & release", call, grown(func(n float64) float64 { return 5 })}, {"list <all>", whole, grown(func(n float64) float64 { return n })}}
	text := draw(subject{name: "leases", axis: "leases that stand"}, curves, "2 CPUs, abc")
	decoder := xml.NewDecoder(strings.NewReader(text))
	decoder.Strict = true
	words := ""
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		if said, is := token.(xml.CharData); is {
			words += string(said) + "\n"
		}
	}
	for _, want := range []string{"acquire & release, n^0.00", "list <all>, n^1.00", "2 CPUs, abc", "10,000", "1 ms", "leases that stand"} {
		if !strings.Contains(words, want) {
			t.Errorf("the picture does not say %q: %s", want, words)
		}
	}
}
