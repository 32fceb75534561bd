package promapi

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/internal/history/alert"
	"github.com/berth-gpu/berth/internal/history/series"
)

// active is an alert as Prometheus shows it.
type active struct {
	Labels          map[string]string `json:"labels"`
	Annotations     map[string]string `json:"annotations"`
	State           alert.Phase       `json:"state"`
	ActiveAt        time.Time         `json:"activeAt"`
	KeepFiringSince *time.Time        `json:"keepFiringSince,omitempty"`
	Value           string            `json:"value"`
}

// rule is a rule as Prometheus shows it. The fields of an alerting rule are nil in a
// recording rule.
type rule struct {
	State          alert.Phase       `json:"state,omitempty"`
	Name           string            `json:"name"`
	Query          string            `json:"query"`
	Duration       *float64          `json:"duration,omitempty"`
	KeepFiringFor  *float64          `json:"keepFiringFor,omitempty"`
	Labels         map[string]string `json:"labels"`
	Annotations    map[string]string `json:"annotations,omitzero"`
	Alerts         []active          `json:"alerts,omitzero"`
	Health         alert.Health      `json:"health"`
	LastError      string            `json:"lastError,omitempty"`
	EvaluationTime float64           `json:"evaluationTime"`
	LastEvaluation time.Time         `json:"lastEvaluation"`
	Type           string            `json:"type"`
}

// group is a group of rules as Prometheus shows it.
type group struct {
	Name           string    `json:"name"`
	File           string    `json:"file"`
	Rules          []rule    `json:"rules"`
	Interval       float64   `json:"interval"`
	Limit          int       `json:"limit"`
	EvaluationTime float64   `json:"evaluationTime"`
	LastEvaluation time.Time `json:"lastEvaluation"`
}

// alerts lists the alerts that are pending or firing. A caller who may see no names
// gets the alerts that name nobody.
func (a api) alerts(q *question) (reply, error) {
	list := []active{}
	if a.Rules != nil {
		list = shown(a.Rules.Active(), q.nameless())
	}
	return reply{data: map[string][]active{"alerts": list}}, nil
}

func shown(states []alert.State, nameless bool) []active {
	list := make([]active, 0, len(states))
	for i := range states {
		s := &states[i]
		if nameless && (series.Tells(s.Labels) || series.Tells(s.Annotations)) {
			continue
		}
		one := active{
			Labels: s.Labels.Map(), Annotations: s.Annotations.Map(), State: s.Phase, ActiveAt: s.ActiveAt.UTC(),
			Value: strconv.FormatFloat(s.Value, 'e', -1, 64),
		}
		if !s.KeptSince.IsZero() {
			since := s.KeptSince.UTC()
			one.KeepFiringSince = &since
		}
		list = append(list, one)
	}
	return list
}

// rules lists, by group, the rules that the parameters select.
func (a api) rules(q *question) (reply, error) {
	want := strings.ToLower(q.Form.Get("type"))
	if want != "" && want != "alert" && want != "record" {
		return reply{}, invalid("type", fmt.Errorf("not supported value %q", want))
	}
	bare := false
	if text := q.Form.Get("exclude_alerts"); text != "" {
		var err error
		if bare, err = strconv.ParseBool(strings.ToLower(text)); err != nil {
			return reply{}, invalid("exclude_alerts", fmt.Errorf("%q is neither true nor false", text))
		}
	}
	asked := func(parameter, name string) bool {
		return len(q.Form[parameter]) == 0 || slices.Contains(q.Form[parameter], name)
	}
	groups := []group{}
	if a.Rules == nil {
		return reply{data: map[string][]group{"groups": groups}}, nil
	}
	for _, g := range a.Rules.Groups() {
		if !asked("rule_group[]", g.Name) || !asked("file[]", g.File) {
			continue
		}
		one := group{
			Name: g.Name, File: g.File, Interval: g.Interval.Seconds(), Limit: g.Limit,
			EvaluationTime: g.Took.Seconds(), LastEvaluation: g.Evaluated.UTC(),
		}
		for i := range g.Rules {
			r := &g.Rules[i]
			if alerting := r.Alert != ""; asked("rule_name[]", r.Name()) && (want == "" || alerting == (want == "alert")) {
				one.Rules = append(one.Rules, ruleOf(r, bare, q.nameless()))
			}
		}
		if len(one.Rules) > 0 {
			groups = append(groups, one)
		}
	}
	return reply{data: map[string][]group{"groups": groups}}, nil
}

func ruleOf(r *alert.RuleState, bare, nameless bool) rule {
	out := rule{
		Name: r.Name(), Query: r.Expr, Labels: r.Labels.Map(), Health: r.Health, LastError: r.Error,
		EvaluationTime: r.Took.Seconds(), LastEvaluation: r.Evaluated.UTC(), Type: "recording",
	}
	if r.Alert == "" {
		return out
	}
	wait, keep := r.For.Seconds(), r.Keep.Seconds()
	out.Type, out.State, out.Duration, out.KeepFiringFor, out.Annotations, out.Alerts = "alerting", r.Phase(), &wait, &keep, r.Annotations.Map(), []active{}
	if !bare {
		out.Alerts = shown(r.Active, nameless)
	}
	return out
}
