package alert

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/history/series"
)

// most is how many alerts or series a rule may have if its group does not say:
// each of them is an event, and a part of the file.
const most = 1000

// Store takes samples.
type Store interface {
	// Append hands samples over. It does not wait for the disk.
	Append(at time.Time, list []series.Sample) error
}

// Ask answers the expression of a rule, or a question of a template.
type Ask func(ctx context.Context, expr string, at time.Time) (series.Answer, error)

// Options are what Alerts are made from.
type Options struct {
	Ask   Ask
	Store Store                  // nil: results are not stored
	Event func(gpu.Event)        // tells what fires and what is resolved
	Known func(uuid string) bool // reports whether there is such a device
	File  string                 // keeps alerts across restarts; empty: they are not kept
	Tell  func(err error)        // hears that File cannot be written, once until it can
	// Record writes an acknowledgement down before it is made, or its end, for which
	// a is nil. If it fails, nothing is changed.
	Record func(by access.Actor, s *State, a *Acknowledgement) error
	Settle time.Duration // from Run to the first evaluation at least, or the interval of the group if that is shorter: the store must have something
}

// Alerts evaluates groups of rules, each at its interval, its rules one after the
// other and never twice at once, and keeps the alerts of all of them.
type Alerts struct {
	Options
	dirty chan struct{} // has one after something changed

	mu     sync.Mutex // guards what follows; never held during a question
	groups []*group
	at     *running  // nil: Run is not at work
	kept   *document // of before the restart, until the first Configure; nil: there is none
}

// running is one call of Run.
type running struct {
	ctx    context.Context
	began  time.Time
	groups sync.WaitGroup
}

// group is a group that is evaluated. What is not said otherwise is guarded by
// Alerts.
type group struct {
	Group     // does not change
	active    []Active
	states    []outcome                  // of the rules
	stored    []map[string]series.Labels // what each rule stored last, by its labels as text
	evaluated time.Time
	due       time.Time // of the next evaluation, or of the one under way; zero: it does not run
	took      time.Duration
	stop      context.CancelFunc // nil: it does not run
}

// outcome is what came of a rule.
type outcome struct {
	health    Health
	problem   string
	evaluated time.Time
	took      time.Duration
}

// New returns Alerts without rules. Nothing is evaluated before Run.
func New(o Options) *Alerts {
	if o.Known == nil {
		o.Known = func(string) bool { return true }
	}
	return &Alerts{Options: o, dirty: make(chan struct{}, 1)}
}

// Groups returns all groups with their rules and alerts, in the order of their
// files. A nil *Alerts has none.
func (as *Alerts) Groups() []GroupState {
	list := []GroupState{}
	if as == nil {
		return list
	}
	as.mu.Lock()
	defer as.mu.Unlock()
	for _, g := range as.groups {
		state := GroupState{Group: g.Group, Rules: make([]RuleState, len(g.Rules)), Evaluated: g.evaluated, Took: g.took}
		for i := range g.Rules {
			o := g.states[i]
			state.Rules[i] = RuleState{
				Rule: g.Rules[i], Health: cmp.Or(o.health, Untried), Error: o.problem, Evaluated: o.evaluated, Took: o.took, Active: g.active[i].List(),
			}
		}
		list = append(list, state)
	}
	return list
}

// Evaluation says when a group was evaluated.
type Evaluation struct {
	Group    string
	Interval time.Duration
	Last     time.Time // zero: not since the daemon started
	Due      time.Time // the next one, or the one under way
}

// Evaluations returns when each group that runs was evaluated, and when it is due.
// A nil *Alerts has none.
func (as *Alerts) Evaluations() []Evaluation {
	if as == nil {
		return nil
	}
	as.mu.Lock()
	defer as.mu.Unlock()
	var list []Evaluation
	for _, g := range as.groups {
		if !g.due.IsZero() {
			list = append(list, Evaluation{g.Name, g.Interval, g.evaluated, g.due})
		}
	}
	return list
}

// Active returns the alerts that are pending or fire: those that fire first, the
// critical ones before others, and then the newest.
func (as *Alerts) Active() []State {
	list := []State{}
	if as == nil {
		return list
	}
	as.mu.Lock()
	defer as.mu.Unlock()
	for _, g := range as.groups {
		for _, active := range g.active {
			list = append(list, active.List()...)
		}
	}
	slices.SortStableFunc(list, func(a, b State) int {
		return cmp.Or(rank(&a)-rank(&b), b.ActiveAt.Compare(a.ActiveAt), a.Labels.Compare(b.Labels))
	})
	return list
}

// rank orders alerts by how much they matter.
func rank(s *State) int {
	switch {
	case s.Phase != Firing:
		return 2
	case s.Severity() != gpu.Serious:
		return 1
	}
	return 0
}

// change makes Run write the file soon.
func (as *Alerts) change() {
	select {
	case as.dirty <- struct{}{}:
	default: // it is going to be written anyway
	}
}
