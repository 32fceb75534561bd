// Package series has the words for numbers over time: labels, points, series, and the
// answer to a question in PromQL.
//
// The store of the past, the query engine, the alerts and the doors share it, so that
// none of them needs the types of a vendor.
//
// Pure: no clock, no I/O.
package series

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Name is the label that holds the name of a metric.
const Name = "__name__"

// Label is a name and a value.
type Label struct{ Name, Value string }

// Labels identify a series. They are ordered by name.
type Labels []Label

// FromMap returns labels ordered by name.
func FromMap(m map[string]string) Labels {
	list := make(Labels, 0, len(m))
	for name, value := range m {
		list = append(list, Label{name, value})
	}
	slices.SortFunc(list, func(a, b Label) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// Map returns the labels by name.
func (l Labels) Map() map[string]string {
	m := make(map[string]string, len(l))
	for _, each := range l {
		m[each.Name] = each.Value
	}
	return m
}

// Get returns the value of a label, or "" if there is none.
func (l Labels) Get(name string) string {
	for _, each := range l {
		if each.Name == name {
			return each.Value
		}
	}
	return ""
}

// Compare orders labels by their names and values.
func (l Labels) Compare(other Labels) int {
	return slices.CompareFunc(l, other, func(a, b Label) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Value, b.Value))
	})
}

// Point is a value at a time, in milliseconds since 1970.
type Point struct {
	T int64
	V float64
}

// Series is a set of labels and its points, the oldest first.
type Series struct {
	Labels Labels
	Points []Point
}

// Kind is the meaning of the numbers of a metric.
type Kind int

// The kinds. The zero value means that the kind is not known.
const (
	Unknown   Kind = iota
	Gauge          // goes up and down
	Counter        // grows, and begins at 0 when the daemon restarts
	Histogram      // the buckets, the sum and the count of one
)

// String returns the kind as Prometheus calls it.
func (k Kind) String() string {
	return [...]string{"unknown", "gauge", "counter", "histogram"}[k]
}

// Sample is a value to be stored: one point of one series, whose time is given
// separately. Its labels include the name.
type Sample struct {
	Labels Labels
	Kind   Kind
	Value  float64
}

// Stale returns the value that ends a series: a query after it no longer finds the value
// before it. Prometheus uses this NaN for the same purpose.
func Stale() float64 { return math.Float64frombits(stale) }

// IsStale reports whether a value ends a series. Other NaNs do not.
func IsStale(v float64) bool { return math.Float64bits(v) == stale }

const stale = 0x7ff0000000000002

// Metric describes the series of one name.
type Metric struct {
	Name string
	Kind Kind
	Help string
}
