// Package series has the words for numbers over time that berth adds to those of
// Prometheus: samples to be stored, and questions in PromQL with their answers.
//
// The store of the past, the query engine, the alerts and the doors share it.
//
// Pure: no clock, no I/O.
package series

import (
	"math"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
)

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
// separately. Its labels include the name, and none is empty.
type Sample struct {
	Labels labels.Labels
	Kind   Kind
	Value  float64
}

// Stale returns the value that ends a series: a query after it no longer finds the value
// before it.
func Stale() float64 { return math.Float64frombits(value.StaleNaN) }

// Metric describes the series of one name.
type Metric struct {
	Name string
	Kind Kind
	Help string
}
