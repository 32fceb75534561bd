package alert

import (
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// Rule is a query and the meaning of its answer: each element is an alert or, for a
// recording rule, a series.
type Rule struct {
	Alert  string // name of the alert; empty for a recording rule
	Record string // name of the series for a recording rule
	Expr   string
	For    time.Duration // an alert is pending for this long before it fires
	Keep   time.Duration // an alert goes on firing for this long after the last answer that had it

	// Labels and Annotations are templates for an alert. The labels of a recording rule
	// are literal.
	Labels      labels.Labels
	Annotations labels.Labels
}

// Name returns the name of the alert or of the series.
func (r *Rule) Name() string {
	if r.Alert != "" {
		return r.Alert
	}
	return r.Record
}

// same reports whether two rules have the same name and labels, so that the alerts of one
// go on under the other.
func (r *Rule) same(other *Rule) bool {
	return r.Alert == other.Alert && r.Record == other.Record && labels.Equal(r.Labels, other.Labels)
}

// Group is a list of rules that are evaluated together, one after the other.
type Group struct {
	Name     string
	File     string        // file that defines it
	Interval time.Duration // time between two evaluations
	Offset   time.Duration // how far in the past the queries are evaluated
	Limit    int           // most alerts or series of one rule; 0 means the default of the evaluator
	Rules    []Rule
}

// Key identifies a group.
func (g *Group) Key() string { return g.File + ";" + g.Name }

// Health says whether a rule could be evaluated.
type Health string

// The values of Health, as Prometheus writes them.
const (
	Untried Health = "unknown"
	Good    Health = "ok"
	Bad     Health = "err"
)

// RuleState is a rule and its results.
type RuleState struct {
	Rule
	Health    Health
	Error     string // why the newest evaluation failed; empty if it did not
	Evaluated time.Time
	Took      time.Duration
	Active    []State // pending and firing alerts of an alerting rule, in the order of their labels
}

// Phase returns the worst phase of the alerts of a rule.
func (r *RuleState) Phase() Phase {
	worst := Inactive
	for i := range r.Active {
		if r.Active[i].Phase == Firing {
			return Firing
		}
		worst = Pending
	}
	return worst
}

// GroupState is a group and the results of its rules.
type GroupState struct {
	Group
	Rules     []RuleState // hides Group.Rules
	Evaluated time.Time   // when the newest evaluation began; zero if there was none
	Took      time.Duration
}
