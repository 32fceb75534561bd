package alert

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// Found is one element of the answer to the expression of a rule, with the labels and
// annotations of its alert.
type Found struct {
	Labels      labels.Labels // including alertname
	Annotations labels.Labels
	Value       float64
}

// Active holds the alerts of one rule that are pending or fire, by fingerprint.
type Active map[string]State

// List returns the alerts in the order of their labels.
func (a Active) List() []State {
	return slices.SortedFunc(maps.Values(a), func(x, y State) int {
		return cmp.Or(labels.Compare(x.Labels, y.Labels), cmp.Compare(x.Fingerprint, y.Fingerprint))
	})
}

// Changes are the alerts that an evaluation made fire, and those that no longer fire
// after it. Both are in the order of their labels.
type Changes struct{ Fired, Resolved []State }

// ErrTwice means that an answer has one alert twice.
var ErrTwice = errors.New("two elements of the answer have the same labels after the labels of the rule are added; let the rule keep the label that tells them apart")

// TooManyError means that an answer has more alerts than a rule may have.
type TooManyError struct{ Limit, Found int }

func (e *TooManyError) Error() string {
	return fmt.Sprintf("the answer has %d elements, and one rule may have %d; make the expression stricter, or raise the limit of the group", e.Found, e.Limit)
}

// Step processes the answer of one evaluation. It returns the alerts afterwards and the
// changes, and does not modify before. If an answer has one alert twice, nothing changes.
// If it has more alerts than limit, the rule has none afterwards, as in Prometheus; a
// limit of 0 means any number.
func (r *Rule) Step(before Active, answer []Found, at time.Time, limit int) (Active, Changes, error) {
	after := make(Active, len(answer))
	for _, f := range answer {
		key := Fingerprint(f.Labels)
		if _, twice := after[key]; twice {
			return before, Changes{}, ErrTwice
		}
		s, known := before[key]
		if !known {
			s = State{Fingerprint: key, Labels: f.Labels, Phase: Pending, ActiveAt: at}
		}
		s.Value, s.Annotations, s.KeptSince = f.Value, f.Annotations, time.Time{}
		after[key] = s
	}
	for key, s := range before {
		if _, there := after[key]; !there && r.keeps(&s, at) {
			after[key] = s
		}
	}
	if limit > 0 && len(after) > limit {
		found := len(after)
		clear(after)
		return after, changes(before, after), &TooManyError{Limit: limit, Found: found}
	}
	for key, s := range after {
		r.age(&s, at)
		after[key] = s
	}
	return after, changes(before, after), nil
}

// keeps reports whether an alert that is not in the answer fires on.
func (r *Rule) keeps(s *State, at time.Time) bool {
	if s.Phase != Firing || r.Keep <= 0 {
		return false
	}
	if s.KeptSince.IsZero() {
		s.KeptSince = at
	}
	return at.Sub(s.KeptSince) < r.Keep
}

// age makes an alert fire that has been there for long enough. A firing alert becomes
// pending again if its rule now asks for more time.
func (r *Rule) age(s *State, at time.Time) {
	switch old := at.Sub(s.ActiveAt) >= r.For; {
	case old && s.Phase == Pending:
		s.Phase, s.FiredAt = Firing, at
	case !old && s.Phase == Firing:
		s.Phase, s.FiredAt, s.KeptSince = Pending, time.Time{}, time.Time{}
	}
}

// changes compares the alerts before an evaluation with those after it.
func changes(before, after Active) (c Changes) {
	for _, s := range after.List() {
		if s.Phase == Firing && before[s.Fingerprint].Phase != Firing {
			c.Fired = append(c.Fired, s)
		}
	}
	for _, s := range before.List() {
		if s.Phase == Firing && after[s.Fingerprint].Phase != Firing {
			c.Resolved = append(c.Resolved, s)
		}
	}
	return c
}

// Repeat is the time after which an alert is published again if it still fires and nobody
// has acknowledged it.
const Repeat = 4 * time.Hour

// Tell returns the alerts to publish now, in the order of their labels, and marks them as
// published: those that have begun to fire, and those that are due again and not
// acknowledged. When an acknowledgement expires, Tell returns the alert at once.
func (a Active) Tell(at time.Time) []State {
	var due []State
	for _, s := range a.List() {
		if s.Acknowledged != nil && !at.Before(s.Acknowledged.Until) {
			s.Acknowledged, s.Told = nil, time.Time{}
		}
		switch {
		case s.Phase != Firing:
			s.Told = time.Time{}
		case s.Told.IsZero(), s.Acknowledged == nil && at.Sub(s.Told) >= Repeat:
			s.Told = at
			due = append(due, s)
		}
		a[s.Fingerprint] = s
	}
	return due
}
