package alert

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/history/series"
)

// most is the most alerts or series of a rule if its group sets no limit. Each of them is
// an event, and a part of the file.
const most = 1000

// Store stores samples.
type Store interface {
	// Append hands samples over. It does not wait for the disk.
	Append(at time.Time, list []series.Sample) error
}

// Ask answers the expression of a rule, or a query of a template.
type Ask func(ctx context.Context, expr string, at time.Time) (series.Answer, error)

// Options are the parts that Alerts work with.
type Options struct {
	Ask   Ask
	Store Store                  // nil if results are not stored
	Event func(gpu.Event)        // publishes that an alert fires or is resolved
	Known func(uuid string) bool // reports whether there is such a device
	// Told reports whether an event of at least this severity has said of a device what an
	// alert with this cause says: the cause of its state. Nil: none has.
	Told func(uuid, cause string, severity gpu.Severity) bool
	File string          // keeps alerts across restarts; if empty, nothing does
	Tell func(err error) // reports that File cannot be written, once until it can
	// Record writes an acknowledgement to the audit log before it takes effect, or its
	// end if a is nil. If Record fails, nothing changes.
	Record func(by access.Actor, s *State, a *Acknowledgement) error
	Settle time.Duration // shortest time from Run to the first evaluation, or the interval of the group if that is shorter: the store must have something
}

// Alerts evaluates groups of rules, each at its interval, and keeps the alerts of all of
// them. It evaluates the rules of a group one after the other, and never twice at once.
type Alerts struct {
	Options
	file *file.State[document]

	telling sync.Mutex // locked before mu, until the events of a change are told: they come in the order of the changes

	mu     sync.Mutex // guards what follows; not held during a query
	groups []*group
	at     *running  // nil unless Run runs
	kept   *document // alerts from before the restart, until the first Configure; nil if there are none
	lacks  bool      // the last rules came with ConfigureSome
}

// running is one call of Run.
type running struct {
	ctx    context.Context
	began  time.Time
	groups sync.WaitGroup
}

// group is a group that is evaluated. Alerts.mu guards the fields unless they say
// otherwise.
type group struct {
	Group     // does not change
	active    []Active
	states    []outcome                  // by rule
	stored    []map[string]labels.Labels // series that each rule stored last, by their labels as text
	evaluated time.Time
	due       time.Time // time of the next evaluation, or of the one under way; zero if it does not run
	took      time.Duration
	stop      context.CancelFunc // nil if it does not run
}

// outcome is the result of a rule.
type outcome struct {
	health    Health
	problem   string
	evaluated time.Time
	took      time.Duration
}

// New returns Alerts without rules. Only Run evaluates them.
func New(o Options) *Alerts {
	if o.Known == nil {
		o.Known = func(string) bool { return true }
	}
	return &Alerts{Options: o, file: newState(o.File)}
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
	Last     time.Time // zero if there was none since the daemon started
	Due      time.Time // time of the next evaluation, or of the one under way
}

// Evaluations returns when each running group was evaluated, and when it is due. A nil
// *Alerts has none.
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

// Active returns the alerts that are pending or fire. Firing ones come first, critical
// ones before others, and then the newest.
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
		return cmp.Or(rank(&a)-rank(&b), b.ActiveAt.Compare(a.ActiveAt), labels.Compare(a.Labels, b.Labels))
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
