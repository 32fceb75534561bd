package alert

import (
	"context"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/history/series"
)

// Configure replaces the rules. An unchanged group goes on undisturbed. The alerts of a
// changed group go on if it still has a rule with the same name and labels; the others
// end. An empty list stops the evaluation. Configure reports whether anything has
// changed.
func (as *Alerts) Configure(list []Group) (changed bool) { return as.configure(list, false) }

// ConfigureSome is Configure for a start at which other groups cannot be read. The alerts
// from before the restart that none of these groups has wait for the next Configure.
func (as *Alerts) ConfigureSome(list []Group) { as.configure(list, true) }

// Lacks reports whether the last rules came with ConfigureSome.
func (as *Alerts) Lacks() bool {
	as.mu.Lock()
	defer as.mu.Unlock()
	return as.lacks
}

func (as *Alerts) configure(list []Group, lacks bool) (changed bool) {
	now := time.Now()
	var tell []gpu.Event
	as.telling.Lock()
	defer as.telling.Unlock()
	as.mu.Lock()
	before := map[string]*group{}
	for _, g := range as.groups {
		before[g.Key()] = g
	}
	changed = len(before) != len(list)
	as.groups = nil
	for i := range list {
		old := before[list[i].Key()]
		delete(before, list[i].Key())
		if old != nil && old.same(&list[i]) {
			as.groups = append(as.groups, old)
			continue
		}
		changed = true
		g := newGroup(list[i])
		if old != nil {
			var dropped []State
			g.active, dropped = carry(&old.Group, old.active, &g.Group)
			tell = append(tell, as.resolved(dropped, now, "its rule is gone")...)
			as.retire(old, now)
		} else if as.kept != nil {
			tell = append(tell, as.restore(g, now)...)
		}
		as.groups = append(as.groups, g)
		as.start(g)
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		old := before[key]
		as.retire(old, now)
		for _, active := range old.active {
			tell = append(tell, as.resolved(firing(active), now, "its rule is gone")...)
		}
	}
	if as.lacks = lacks; !lacks {
		tell = append(tell, as.orphaned(now)...)
	}
	as.mu.Unlock()
	for _, e := range tell {
		as.Event(e)
	}
	as.file.Change(writeAfter)
	return changed
}

func newGroup(g Group) *group {
	made := &group{Group: g, active: make([]Active, len(g.Rules)), states: make([]outcome, len(g.Rules)), stored: make([]map[string]labels.Labels, len(g.Rules))}
	for i := range made.active {
		made.active[i] = Active{}
	}
	return made
}

// same reports whether a group is unchanged.
func (g *group) same(other *Group) bool {
	if g.Interval != other.Interval || g.Offset != other.Offset || g.Limit != other.Limit || len(g.Rules) != len(other.Rules) {
		return false
	}
	for i := range g.Rules {
		a, b := &g.Rules[i], &other.Rules[i]
		if a.Alert != b.Alert || a.Record != b.Record || a.Expr != b.Expr || a.For != b.For || a.Keep != b.Keep ||
			!labels.Equal(a.Labels, b.Labels) || !labels.Equal(a.Annotations, b.Annotations) {
			return false
		}
	}
	return true
}

// firing returns the alerts that fire.
func firing(a Active) []State {
	return slices.DeleteFunc(a.List(), func(s State) bool { return s.Phase != Firing })
}

// retire stops a group and ends the series that it stored. It does not wait for an
// evaluation under way, whose result is dropped. The caller holds mu.
func (as *Alerts) retire(g *group, now time.Time) {
	if g.stop != nil {
		g.stop()
		g.stop = nil
	}
	var list []series.Sample
	for _, stored := range g.stored {
		for _, own := range stored {
			list = append(list, series.Sample{Labels: own, Kind: series.Gauge, Value: series.Stale()})
		}
	}
	as.store(now, list)
}

// store appends samples to the store, which handles its errors itself.
func (as *Alerts) store(at time.Time, list []series.Sample) {
	if as.Store != nil && len(list) > 0 {
		_ = as.Store.Append(at, list)
	}
}

// start begins to evaluate a group, if Run runs. The caller holds mu.
func (as *Alerts) start(g *group) {
	r := as.at
	if r == nil || r.ctx.Err() != nil {
		return
	}
	ctx, stop := context.WithCancel(r.ctx)
	g.stop = stop
	first := max(time.Until(r.began.Add(min(as.Settle, g.Interval))), 0) + stagger(g)
	g.due = time.Now().Add(first)
	r.groups.Go(func() { as.run(ctx, g, first) })
}

// stagger returns a part of the interval of a group that depends on its name, so that not
// all groups ask at once.
func stagger(g *group) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(g.Key())) // a hash accepts everything
	return time.Duration(h.Sum64() % uint64(max(g.Interval, 1)))
}

// carry returns the alerts of each rule in the new version of a group, and the firing
// alerts whose rule is gone. Two rules match if they have the same kind, name and labels.
// If several match, the first goes with the first, the second with the second.
func carry(from *Group, active []Active, to *Group) (carried []Active, dropped []State) {
	carried = make([]Active, len(to.Rules))
	taken := make([]bool, len(from.Rules))
	for i := range to.Rules {
		carried[i] = Active{}
		for k := range from.Rules {
			if !taken[k] && from.Rules[k].same(&to.Rules[i]) {
				taken[k], carried[i] = true, active[k]
				break
			}
		}
	}
	for k, there := range taken {
		if !there {
			dropped = append(dropped, firing(active[k])...)
		}
	}
	return carried, dropped
}
