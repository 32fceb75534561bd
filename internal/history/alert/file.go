package alert

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/history/series"
)

const (
	writeAfter = time.Second // from a change to the disk
	// writeAgain is how often the file is written while there are alerts, so that the
	// next daemon knows when this one last ran.
	writeAgain = time.Minute
	retryWrite = 10 * time.Second
)

// document is the content of the file. The same version may get a new field if a reader
// that does not know the field still understands the rest.
type document struct {
	Version int       `json:"version"`
	Seen    time.Time `json:"seen"` // when it was written
	Alerts  []saved   `json:"alerts"`
}

const version = 1

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

	Acknowledged *acknowledged `json:"acknowledged,omitempty"`
}

type acknowledged struct {
	By      gpu.By    `json:"by"`
	At      time.Time `json:"at"`
	Until   time.Time `json:"until"`
	Comment string    `json:"comment,omitempty"`
}

// Recall reads the alerts from before a restart, for the first Configure. It sets a
// damaged file aside, and continues without it.
func (as *Alerts) Recall() *file.Damage {
	if as.File == "" {
		return nil
	}
	return file.Load(as.File, "Alerts that fired before the restart begin anew, and are not acknowledged.", func(text []byte) error {
		d, err := parse(text)
		if err == nil {
			as.mu.Lock()
			defer as.mu.Unlock()
			as.kept = d
		}
		return err
	})
}

func parse(text []byte) (*document, error) {
	d := &document{}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, err
	}
	if d.Version != version {
		return nil, fmt.Errorf("it has version %d, and this berth knows version %d", d.Version, version)
	}
	return d, nil
}

// state returns an alert of the file.
func (s *saved) state() State {
	labels := series.FromMap(s.Labels)
	state := State{
		Fingerprint: Fingerprint(labels), Labels: labels, Annotations: series.FromMap(s.Annotations), Phase: Pending,
		ActiveAt: s.ActiveAt, FiredAt: s.FiredAt, KeptSince: s.KeptSince, Told: s.Told,
	}
	if s.Firing {
		state.Phase = Firing
	}
	switch v := s.Value.(type) {
	case float64:
		state.Value = v
	case string: // a number that JSON cannot express
		state.Value, _ = strconv.ParseFloat(v, 64)
	}
	if a := s.Acknowledged; a != nil {
		state.Acknowledged = &Acknowledgement{By: a.By, At: a.At, Until: a.Until, Comment: a.Comment}
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

// keep writes the file after a change, and every minute while there are alerts, until ctx
// ends. Without alerts it sleeps. Nobody waits for it.
func (as *Alerts) keep(ctx context.Context) {
	if as.File == "" {
		<-ctx.Done()
		return
	}
	var again <-chan time.Time
	failed := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-as.dirty:
		case <-again:
		}
		pause := writeAfter
		if failed {
			pause = retryWrite
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		active, err := as.write()
		if err != nil && !failed && as.Tell != nil {
			as.Tell(fmt.Errorf("cannot write which alerts there are: %w; berth tries again every %v", err, retryWrite))
		}
		if failed = err != nil; failed {
			as.change()
		}
		again = nil
		if active {
			again = time.After(writeAgain)
		}
	}
}

// finish writes the file once more.
func (as *Alerts) finish() {
	if as.File != "" {
		_, _ = as.write() // if it fails, the next daemon knows a little less
	}
}

// write replaces the file. It reports whether there are alerts.
func (as *Alerts) write() (active bool, err error) {
	d := as.document(time.Now())
	text, err := json.Marshal(d)
	if err != nil {
		return false, err
	}
	return len(d.Alerts) > 0, file.Replace(as.File, text)
}

// document returns the content for the file.
func (as *Alerts) document(now time.Time) *document {
	as.mu.Lock()
	defer as.mu.Unlock()
	d := &document{Version: version, Seen: now, Alerts: []saved{}}
	for _, g := range as.groups {
		for i, active := range g.active {
			for _, s := range active.List() {
				one := saved{
					Group: g.Key(), Rule: i, Labels: s.Labels.Map(), Annotations: s.Annotations.Map(), Firing: s.Phase == Firing, Value: jsonable(s.Value),
					ActiveAt: s.ActiveAt, FiredAt: s.FiredAt, KeptSince: s.KeptSince, Told: s.Told,
				}
				if a := s.Acknowledged; a != nil {
					one.Acknowledged = &acknowledged{By: a.By, At: a.At, Until: a.Until, Comment: a.Comment}
				}
				d.Alerts = append(d.Alerts, one)
			}
		}
	}
	return d
}
