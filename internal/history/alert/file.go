package alert

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file"
)

const (
	writeAfter = time.Second // from a change to the disk
	// writeAgain is how often the file is written while there are alerts, so that the
	// next daemon knows when this one last ran.
	writeAgain = time.Minute
)

// document is the content of the file.
type document struct {
	Seen   time.Time `json:"seen"` // when it was written
	Alerts []saved   `json:"alerts"`
}

func newState(path string) *file.State[document] {
	return file.NewState[document](path, file.StateOptions{
		What: "which alerts there are", Version: 1, Lost: "Alerts that fired before the restart begin anew, and are not acknowledged.",
	})
}

// saved is an alert in the file.
type saved struct {
	Group string `json:"group"` // key of the group
	Rule  int    `json:"rule"`  // its place in the group

	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Firing      bool              `json:"firing,omitempty"`
	Value       any               `json:"value"`
	ActiveAt    time.Time         `json:"active_at"`
	FiredAt     time.Time         `json:"fired_at,omitzero"`
	KeptSince   time.Time         `json:"kept_since,omitzero"`
	Told        time.Time         `json:"told,omitzero"`

	Acknowledged *Acknowledgement `json:"acknowledged,omitempty"`
}

// Recall reads the alerts from before a restart, for the first Configure. It sets a
// damaged file aside, and continues without it.
func (as *Alerts) Recall() *file.Damage {
	return as.file.Load(func(d document) error {
		as.mu.Lock()
		defer as.mu.Unlock()
		as.kept = &d
		return nil
	})
}

// state returns an alert of the file.
func (s *saved) state() State {
	own := labels.FromMap(s.Labels)
	state := State{
		Fingerprint: Fingerprint(own), Labels: own, Annotations: labels.FromMap(s.Annotations), Phase: Pending,
		ActiveAt: s.ActiveAt, FiredAt: s.FiredAt, KeptSince: s.KeptSince, Told: s.Told, Acknowledged: s.Acknowledged,
	}
	if s.Firing {
		state.Phase = Firing
	}
	switch v := s.Value.(type) {
	case json.Number:
		state.Value, _ = v.Float64()
	case string: // a number that JSON cannot express
		state.Value, _ = strconv.ParseFloat(v, 64)
	}
	return state
}

// restore gives a group its alerts from before the restart, and returns the events to
// publish. The caller holds mu.
func (as *Alerts) restore(g *group, now time.Time) (tell []gpu.Event) {
	byRule := map[int][]State{}
	for i := range as.kept.Alerts {
		s := &as.kept.Alerts[i]
		if s.Group != g.Key() {
			continue
		}
		state, rule := s.state(), s.Rule
		if rule < 0 || rule >= len(g.Rules) || g.Rules[rule].Alert != state.Name() { // the group has changed meanwhile
			rule = g.rule(state.Name())
		}
		if rule >= 0 {
			byRule[rule] = append(byRule[rule], state)
			s.Group = "" // mark it as taken
		}
	}
	for i, list := range byRule {
		active, dropped := g.Rules[i].Restore(list, as.kept.Seen, now)
		g.active[i] = active
		tell = append(tell, as.resolved(dropped, now, "berth was not running for more than an hour")...)
	}
	return tell
}

// rule returns the index of the first rule of an alert, or -1.
func (g *group) rule(name string) int {
	for i := range g.Rules {
		if g.Rules[i].Alert != "" && g.Rules[i].Alert == name {
			return i
		}
	}
	return -1
}

// orphaned returns the events about alerts of the file that no group has taken, and
// forgets the file. The caller holds mu.
func (as *Alerts) orphaned(now time.Time) (tell []gpu.Event) {
	if as.kept == nil {
		return nil
	}
	for i := range as.kept.Alerts {
		if s := &as.kept.Alerts[i]; s.Group != "" && s.Firing {
			tell = append(tell, as.resolved([]State{s.state()}, now, "its rule is gone")...)
		}
	}
	as.kept = nil
	return tell
}

// write replaces the file. While there are alerts, it does so again after a minute.
func (as *Alerts) write() error {
	d := as.document(time.Now())
	if len(d.Alerts) > 0 {
		as.file.Change(writeAgain)
	}
	return as.file.Save(d)
}

// document returns the content for the file.
func (as *Alerts) document(now time.Time) document {
	as.mu.Lock()
	defer as.mu.Unlock()
	d := document{Seen: now, Alerts: []saved{}}
	for _, g := range as.groups {
		for i, active := range g.active {
			for _, s := range active.List() {
				one := saved{
					Group: g.Key(), Rule: i, Labels: s.Labels.Map(), Annotations: s.Annotations.Map(), Firing: s.Phase == Firing, Value: jsonable(s.Value),
					ActiveAt: s.ActiveAt, FiredAt: s.FiredAt, KeptSince: s.KeptSince, Told: s.Told, Acknowledged: s.Acknowledged,
				}
				d.Alerts = append(d.Alerts, one)
			}
		}
	}
	if as.kept != nil { // they wait for their group
		d.Alerts = append(d.Alerts, slices.DeleteFunc(slices.Clone(as.kept.Alerts), func(s saved) bool { return s.Group == "" })...)
	}
	return d
}
