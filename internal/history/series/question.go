package series

import (
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// Options are the options of a question. The zero value is for a question of the daemon
// itself, which sees everything.
type Options struct {
	// Nameless hides every series that names a user, a group, a service or a lease.
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

// Telling returns the labels that name somebody: a user, a group, a service, or a
// lease by the user who holds it.
func Telling() []string { return []string{"user", "group", "service", "lease"} }

// Tells reports whether labels name somebody.
func Tells(l labels.Labels) bool {
	return slices.ContainsFunc(Telling(), func(name string) bool { return l.Get(name) != "" })
}
