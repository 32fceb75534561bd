// Package alerts evaluates alert rules: each group at its interval, its rules
// one after the other, never twice at once.
//
// What fires and what is resolved becomes an event, so that it reaches the log,
// streams and hooks; ALERTS and the results of recording rules go to the store.
// When an alert fires is for package alert.
//
// The alerts survive a restart in a small file, with who acknowledged them.
package alerts

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/history/alert"
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

// Options are what a Keeper is made from.
type Options struct {
	// Ask answers the expression of a rule.
	Ask func(ctx context.Context, expr string, at time.Time) (series.Answer, error)
	// Expand returns the alert that an element of an answer means.
	Expand func(ctx context.Context, r *alert.Rule, labels series.Labels, value float64, at time.Time) alert.Found
	Store  Store                  // nil: results are not stored
	Event  func(gpu.Event)        // tells what fires and what is resolved
	Known  func(uuid string) bool // reports whether there is such a device
	File   string                 // keeps alerts across restarts; empty: they are not kept
	Tell   func(err error)        // hears that File cannot be written, once until it can
	// Record writes an acknowledgement down before it is made, or its end, for which
	// a is nil. If it fails, nothing is changed.
	Record func(by access.Actor, s *alert.State, a *alert.Acknowledgement) error
	Settle time.Duration // from Run to the first evaluation at least, or the interval of the group if that is shorter: the store must have something
}

// Keeper keeps the alerts of all groups.
type Keeper struct {
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
// the keeper.
type group struct {
	alert.Group // does not change
	active      []alert.Alerts
	states      []outcome                  // of the rules
	stored      []map[string]series.Labels // what each rule stored last, by its labels as text
	evaluated   time.Time
	due         time.Time // of the next evaluation, or of the one under way; zero: it does not run
	took        time.Duration
	stop        context.CancelFunc // nil: it does not run
}

// outcome is what came of a rule.
type outcome struct {
	health    alert.Health
	problem   string
	evaluated time.Time
	took      time.Duration
}

// New returns a keeper without rules. Nothing is evaluated before Run.
func New(o Options) *Keeper {
	if o.Known == nil {
		o.Known = func(string) bool { return true }
	}
	return &Keeper{Options: o, dirty: make(chan struct{}, 1)}
}

// Groups returns all groups with their rules and alerts, in the order of their
// files. A nil keeper has none.
func (k *Keeper) Groups() []alert.GroupState {
	list := []alert.GroupState{}
	if k == nil {
		return list
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, g := range k.groups {
		state := alert.GroupState{Group: g.Group, Rules: make([]alert.RuleState, len(g.Rules)), Evaluated: g.evaluated, Took: g.took}
		for i := range g.Rules {
			o := g.states[i]
			state.Rules[i] = alert.RuleState{
				Rule: g.Rules[i], Health: cmp.Or(o.health, alert.Untried), Error: o.problem, Evaluated: o.evaluated, Took: o.took, Active: g.active[i].List(),
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
// A nil keeper has none.
func (k *Keeper) Evaluations() []Evaluation {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	var list []Evaluation
	for _, g := range k.groups {
		if !g.due.IsZero() {
			list = append(list, Evaluation{g.Name, g.Interval, g.evaluated, g.due})
		}
	}
	return list
}

// Active returns the alerts that are pending or fire: those that fire first, the
// critical ones before others, and then the newest.
func (k *Keeper) Active() []alert.State {
	list := []alert.State{}
	if k == nil {
		return list
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, g := range k.groups {
		for _, active := range g.active {
			list = append(list, active.List()...)
		}
	}
	slices.SortStableFunc(list, func(a, b alert.State) int {
		return cmp.Or(rank(&a)-rank(&b), b.ActiveAt.Compare(a.ActiveAt), a.Labels.Compare(b.Labels))
	})
	return list
}

// rank orders alerts by how much they matter.
func rank(s *alert.State) int {
	switch {
	case s.Phase != alert.Firing:
		return 2
	case s.Severity() != gpu.Serious:
		return 1
	}
	return 0
}

// change makes Run write the file soon.
func (k *Keeper) change() {
	select {
	case k.dirty <- struct{}{}:
	default: // it is going to be written anyway
	}
}
