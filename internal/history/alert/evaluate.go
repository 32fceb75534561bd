package alert

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/history/series"
)

// timeLimit is how long the query of one rule may take. It may never take longer than the
// interval of its group.
const timeLimit = 10 * time.Second

// Run evaluates the rules until ctx ends, and keeps the alerts in the file.
func (as *Alerts) Run(ctx context.Context) {
	r := &running{ctx: ctx, began: time.Now()}
	as.mu.Lock()
	as.at = r
	for _, g := range as.groups {
		as.start(g)
	}
	as.mu.Unlock()
	keeping, evaluated := context.WithCancel(context.WithoutCancel(ctx))
	defer evaluated()
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		_ = as.file.Run(keeping, as.write, as.Tell) // if it fails, the next daemon knows a little less
	}()
	<-ctx.Done()
	as.mu.Lock()
	as.at = nil // no new groups from here on
	as.mu.Unlock()
	r.groups.Wait()
	evaluated()
	<-kept
}

// run evaluates a group at its interval. It skips evaluations that it has no time for.
func (as *Alerts) run(ctx context.Context, g *group, first time.Duration) {
	next := time.Now().Add(first)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(next)):
		}
		as.evaluate(ctx, g)
		next = next.Add(g.Interval)
		if late := time.Since(next); late > 0 {
			next = next.Add((late/g.Interval + 1) * g.Interval)
		}
		as.mu.Lock()
		g.due = next
		as.mu.Unlock()
	}
}

// evaluate evaluates the rules of a group, one after the other.
func (as *Alerts) evaluate(ctx context.Context, g *group) {
	began := time.Now()
	for i := range g.Rules {
		if ctx.Err() != nil {
			return
		}
		as.evaluateRule(ctx, g, i)
	}
	as.mu.Lock()
	defer as.mu.Unlock()
	g.evaluated, g.took = began, time.Since(began)
}

// evaluateRule asks the query of a rule, and processes the answer.
func (as *Alerts) evaluateRule(ctx context.Context, g *group, i int) {
	at := time.Now() // has a monotonic part, so a clock that jumps changes no age
	asked, cancel := context.WithTimeout(ctx, min(timeLimit, g.Interval))
	defer cancel()
	answer, err := as.ask(asked, g.Rules[i].Expr, at.Add(-g.Offset))
	var found []Found
	if r := &g.Rules[i]; err == nil && r.Alert != "" {
		for _, e := range answer {
			found = append(found, expand(asked, as.Ask, r, e, at.Add(-g.Offset)))
		}
	}
	if err == nil && asked.Err() != nil {
		err = fmt.Errorf("the templates took longer than %v", min(timeLimit, g.Interval))
	}
	as.telling.Lock()
	defer as.telling.Unlock()
	as.mu.Lock()
	if ctx.Err() != nil { // the group is gone, and so are its alerts
		as.mu.Unlock()
		return
	}
	var tell []gpu.Event
	if err == nil {
		tell, err = as.take(g, i, answer, found, at)
	}
	o := &g.states[i]
	o.health, o.problem, o.evaluated, o.took = Good, "", at, time.Since(at)
	if err != nil {
		o.health, o.problem = Bad, err.Error()
	}
	as.mu.Unlock()
	for _, e := range tell {
		as.Event(e)
	}
}

// ask asks a query and returns the elements of the answer.
func (as *Alerts) ask(ctx context.Context, expr string, at time.Time) (promql.Vector, error) {
	answer, err := as.Ask(ctx, expr, at)
	if err != nil {
		return nil, err
	}
	list, is := vector(answer)
	if !is {
		return nil, errors.New("the answer is neither a vector nor a number; an alert needs one of them")
	}
	return list, nil
}

// take processes the answer to a rule, and returns the events to publish. The caller
// holds mu.
func (as *Alerts) take(g *group, i int, answer promql.Vector, found []Found, at time.Time) (tell []gpu.Event, err error) {
	r, limit := &g.Rules[i], g.Limit
	if limit <= 0 {
		limit = most
	}
	var list []series.Sample
	if r.Alert != "" {
		after, changes, failed := r.Step(g.active[i], found, at, limit)
		tell = append(tell, as.resolved(changes.Resolved, at, "")...)
		for _, s := range after.Tell(at) {
			tell = append(tell, as.fires(&s, at))
		}
		if len(tell) > 0 || len(after) != len(g.active[i]) {
			as.file.Change(writeAfter)
		}
		g.active[i], err = after, failed
		list = after.Samples()
	} else {
		if len(answer) > limit {
			return nil, &TooManyError{Limit: limit, Found: len(answer)}
		}
		for _, e := range answer {
			list = append(list, r.Recorded(e.Metric, e.F))
		}
	}
	as.record(g, i, list, at)
	return tell, err
}

// record stores the series of a rule, at the time that its query was about, and ends those
// that it no longer has. The caller holds mu.
func (as *Alerts) record(g *group, i int, list []series.Sample, at time.Time) {
	if as.Store == nil {
		return
	}
	now := make(map[string]labels.Labels, len(list))
	list = slices.DeleteFunc(list, func(s series.Sample) bool {
		key := s.Labels.String()
		_, twice := now[key]
		now[key] = s.Labels
		return twice
	})
	for key, gone := range g.stored[i] {
		if _, there := now[key]; !there {
			list = append(list, series.Sample{Labels: gone, Kind: series.Gauge, Value: series.Stale()})
		}
	}
	g.stored[i] = now
	for k := range list {
		list[k].Before = g.Offset
	}
	as.store(at, list)
}

// Samples returns the samples to store for the alerts of a rule: ALERTS, which is 1 for
// each alert, and ALERTS_FOR_STATE, which is the time since which it is active, in
// seconds since 1970.
func (a Active) Samples() []series.Sample {
	list := make([]series.Sample, 0, 2*len(a))
	for _, s := range a.List() {
		since := labels.NewBuilder(s.Labels).Set(labels.MetricName, SinceSeries).Labels()
		own := labels.NewBuilder(s.Labels).Set(PhaseLabel, string(s.Phase)).Set(labels.MetricName, Series).Labels()
		list = append(list, series.Sample{Labels: own, Kind: series.Gauge, Value: 1}, series.Sample{Labels: since, Kind: series.Gauge, Value: float64(s.ActiveAt.Unix())})
	}
	return list
}

// Recorded returns the sample to store for an element of the answer of a recording rule.
// A label that the rule sets to nothing is removed.
func (r *Rule) Recorded(found labels.Labels, value float64) series.Sample {
	own := labels.NewBuilder(found)
	r.Labels.Range(func(l labels.Label) { own.Set(l.Name, l.Value) })
	return series.Sample{Labels: own.Set(labels.MetricName, r.Record).Labels(), Kind: series.Gauge, Value: value}
}
