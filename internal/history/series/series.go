// Package series has the words for numbers over time that berth adds to those of
// Prometheus: samples to be stored, and questions in PromQL with their answers.
//
// The store of the past, the query engine, the alerts and the doors share it.
//
// Pure: no clock, no I/O.
package series

import (
	"math"
	"slices"
	"time"

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
	// Before is how long before that time the sample was taken. The first samples of a
	// series may come late, and all of one by the same time.
	Before time.Duration
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

// Options are the options of a question. The zero value is for a question of the daemon
// itself, which sees everything.
type Options struct {
	// Nameless hides every series that names a user, a group, a service, a lease or a hook.
	Nameless bool
	// Waits makes the question wait for a place among those that are answered at the same
	// time, and its answer for room. The daemon's own questions do not wait.
	Waits bool
	// Limit is the most series, names or values of the answer. Zero means all.
	Limit int
	// Timeout ends the question sooner than the engine would. Zero means the engine's
	// limit.
	Timeout time.Duration
	// Lookback is how old the newest sample of a series may be. Zero means the engine's
	// limit.
	Lookback time.Duration
}

// Fault says why a question has no answer. The texts are those of the field errorType of
// Prometheus.
type Fault string

// The faults.
const (
	BadData   Fault = "bad_data"    // the question is invalid, or exceeds a limit that is visible before it is answered
	Execution Fault = "execution"   // these data cannot answer the question, or it exceeds a limit
	TimedOut  Fault = "timeout"     // the answer took too long, or too many questions were asked at once
	Canceled  Fault = "canceled"    // the asker has left
	Internal  Fault = "internal"    // the store failed
	Missing   Fault = "not_found"   // there is no store
	Down      Fault = "unavailable" // the store is not open yet
)

// Error says why a question has no answer.
type Error struct {
	Fault Fault
	Text  string
}

func (e *Error) Error() string { return e.Text }

// Telling returns the labels that name somebody: a user, a group, a service, a lease by
// the user who holds it, or a hook.
func Telling() []string { return []string{"user", "group", "service", "lease", "hook"} }

// Tells reports whether labels name somebody.
func Tells(l labels.Labels) bool {
	return slices.ContainsFunc(Telling(), func(name string) bool { return l.Get(name) != "" })
}
