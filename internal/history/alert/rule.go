package alert

import (
	"time"

	"github.com/berth-gpu/berth/internal/history/series"
)

// Rule is a question and what its answer means: an alert for each element of it,
// or, for a recording rule, a series.
type Rule struct {
	Alert  string // name of the alert; empty: a recording rule
	Record string // name of the series that the answer becomes
	Expr   string
	For    time.Duration // how long an alert is pending before it fires
	Keep   time.Duration // how long an alert fires on after the last answer that had it

	// Labels and Annotations are templates for an alert. The labels of a recording
	// rule are as they are.
	Labels      series.Labels
	Annotations series.Labels
}

// Name returns the name of the alert or of the series.
func (r *Rule) Name() string {
	if r.Alert != "" {
		return r.Alert
	}
	return r.Record
}

// same reports whether two rules are about the same thing, so that what was
// found by one goes on under the other: they have a name and labels in common.
func (r *Rule) same(other *Rule) bool {
	return r.Alert == other.Alert && r.Record == other.Record && r.Labels.Compare(other.Labels) == 0
}

// Group is rules that are evaluated together, one after the other.
type Group struct {
	Name     string
	File     string        // the file that it is from
	Interval time.Duration // from one evaluation to the next
	Offset   time.Duration // how far before the present the questions are asked
	Limit    int           // alerts or series of one rule; 0: the limit of the evaluator
	Rules    []Rule
}

// Key identifies a group.
func (g *Group) Key() string { return g.File + ";" + g.Name }

// Health says whether a rule could be evaluated.
type Health string

// The answers, as Prometheus writes them.
const (
	Untried Health = "unknown"
	Good    Health = "ok"
	Bad     Health = "err"
)

// RuleState is a rule and what came of it.
type RuleState struct {
	Rule
	Health    Health
	Error     string // why the newest evaluation failed; empty: it did not
	Evaluated time.Time
	Took      time.Duration
	Active    []State // pending and firing, in the order of their labels; of an alerting rule
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

// GroupState is a group and what came of its rules.
type GroupState struct {
	Group
	Rules     []RuleState // hides those of Group
	Evaluated time.Time   // when the newest evaluation began; zero: there was none
	Took      time.Duration
}
