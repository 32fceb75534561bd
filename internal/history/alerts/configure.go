package alerts

import (
	"context"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/history/alert"
	"github.com/berth-gpu/berth/internal/history/series"
)

// Configure replaces the rules. A group that is as it was goes on undisturbed.
// The alerts of another one go on where a rule with the same name and labels is
// still in the group; the others end. No groups at all stop the evaluation. It
// reports whether anything is different.
func (k *Keeper) Configure(list []alert.Group) (changed bool) {
	now := time.Now()
	var tell []gpu.Event
	k.mu.Lock()
	before := map[string]*group{}
	for _, g := range k.groups {
		before[g.Key()] = g
	}
	changed = len(before) != len(list)
	k.groups = nil
	for i := range list {
		old := before[list[i].Key()]
		delete(before, list[i].Key())
		if old != nil && old.same(&list[i]) {
			k.groups = append(k.groups, old)
			continue
		}
		changed = true
		g := newGroup(list[i])
		if old != nil {
			var dropped []alert.State
			g.active, dropped = alert.Carry(&old.Group, old.active, &g.Group)
			tell = append(tell, k.resolved(dropped, now, "its rule is gone")...)
			k.retire(old, now)
		} else if k.kept != nil {
			tell = append(tell, k.restore(g, now)...)
		}
		k.groups = append(k.groups, g)
		k.start(g)
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		old := before[key]
		k.retire(old, now)
		for _, active := range old.active {
			tell = append(tell, k.resolved(firing(active), now, "its rule is gone")...)
		}
	}
	tell = append(tell, k.orphaned(now)...)
	k.mu.Unlock()
	for _, e := range tell {
		k.Event(e)
	}
	k.change()
	return changed
}

func newGroup(g alert.Group) *group {
	made := &group{Group: g, active: make([]alert.Alerts, len(g.Rules)), states: make([]outcome, len(g.Rules)), stored: make([]map[string]series.Labels, len(g.Rules))}
	for i := range made.active {
		made.active[i] = alert.Alerts{}
	}
	return made
}

// same reports whether a group is as it was.
func (g *group) same(other *alert.Group) bool {
	if g.Interval != other.Interval || g.Offset != other.Offset || g.Limit != other.Limit || len(g.Rules) != len(other.Rules) {
		return false
	}
	for i := range g.Rules {
		a, b := &g.Rules[i], &other.Rules[i]
		if a.Alert != b.Alert || a.Record != b.Record || a.Expr != b.Expr || a.For != b.For || a.Keep != b.Keep ||
			a.Labels.Compare(b.Labels) != 0 || a.Annotations.Compare(b.Annotations) != 0 {
			return false
		}
	}
	return true
}

// firing returns the alerts that fire.
func firing(a alert.Alerts) []alert.State {
	return slices.DeleteFunc(a.List(), func(s alert.State) bool { return s.Phase != alert.Firing })
}

// retire stops a group and ends the series that it stored. It does not wait for
// an evaluation under way, whose result is dropped. The caller holds mu.
func (k *Keeper) retire(g *group, now time.Time) {
	if g.stop != nil {
		g.stop()
		g.stop = nil
	}
	var list []series.Sample
	for _, stored := range g.stored {
		for _, labels := range stored {
			list = append(list, series.Sample{Labels: labels, Kind: series.Gauge, Value: series.Stale()})
		}
	}
	k.store(now, list)
}

// store hands samples over. What the store does not take is its own business.
func (k *Keeper) store(at time.Time, list []series.Sample) {
	if k.Store != nil && len(list) > 0 {
		_ = k.Store.Append(at, list)
	}
}

// start lets a group be evaluated, if Run runs. The caller holds mu.
func (k *Keeper) start(g *group) {
	r := k.at
	if r == nil || r.ctx.Err() != nil {
		return
	}
	ctx, stop := context.WithCancel(r.ctx)
	g.stop = stop
	first := max(time.Until(r.began.Add(min(k.Settle, g.Interval))), 0) + stagger(g)
	g.due = time.Now().Add(first)
	r.groups.Go(func() { k.run(ctx, g, first) })
}

// stagger returns a part of the interval of a group that depends on its name, so
// that groups do not ask all at once.
func stagger(g *group) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(g.Key())) // a hash takes everything
	return time.Duration(h.Sum64() % uint64(max(g.Interval, 1)))
}
