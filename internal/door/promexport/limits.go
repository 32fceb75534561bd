package promexport

import (
	"cmp"
	"maps"
	"slices"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

var (
	userLimitMetric  = metric(gauge, "berth_user_limit", "What the entry of a user in the configuration allows, by limit. The user default is users.default.", "user", "limit")
	groupLimitMetric = metric(gauge, "berth_group_limit", "What the members of a group may have together, by limit.", "group", "limit")
	groupUsedMetric  = metric(gauge, "berth_group_used", "What the members of a group have together, by limit.", "group", "limit")
)

// mostEntries limits the users and the groups that have lines. Their names come from
// the configuration, so nobody else can make them up.
const mostEntries = 50

// limits shows the limits of users and groups.
var limits = group{[]*family{userLimitMetric, groupLimitMetric, groupUsedMetric}, func(now *Values, out lines) {
	rules := now.Limits
	if rules == nil {
		return
	}
	putLimits(out, "default", &rules.Default)
	users := slices.SortedFunc(entriesOf(rules), func(a, b quota.User) int { return cmp.Compare(a.Name, b.Name) })
	for _, u := range users[:min(len(users), mostEntries)] {
		putLimits(out, u.Name, &u.Configured)
	}
	groups := slices.SortedFunc(maps.Values(rules.Groups), func(a, b quota.Group) int { return cmp.Compare(a.Name, b.Name) })
	for _, g := range groups[:min(len(groups), mostEntries)] {
		has := now.Ledger.Usage(&lease.Limits{Together: []lease.Together{{Group: g.Name}}}).Together[0]
		for _, l := range []struct {
			name string
			most gpu.Opt[float64]
			used float64
		}{
			{"memory_mb", limit(g.Together.Memory), float64(has.Memory)}, {"slots", limit(g.Together.Slots), float64(has.Slots)},
			{"leases", limit(g.Together.Leases), float64(has.Leases)},
		} {
			if most, set := l.most.Get(); set {
				out.put(groupLimitMetric, most, g.Name, l.name)
				out.put(groupUsedMetric, l.used, g.Name, l.name)
			}
		}
	}
}}

// entriesOf yields the users that have their own entry.
func entriesOf(r *quota.Rules) func(yield func(quota.User) bool) {
	return func(yield func(quota.User) bool) {
		for _, u := range r.Users {
			if !yield(u) {
				return
			}
		}
		for name, u := range r.Named {
			if name != "default" && !yield(u) {
				return
			}
		}
	}
}

func putLimits(out lines, user string, l *quota.Configured) {
	for name, set := range map[string]gpu.Opt[float64]{
		"memory_mb": limit(l.Memory), "slots": limit(l.Slots), "leases": limit(l.Leases), "waiting": limit(l.Waiting),
		"calls_per_second": l.Calls, "connections": limit(l.Connections), "streams": limit(l.Streams),
	} {
		if most, known := set.Get(); known {
			out.put(userLimitMetric, most, user, name)
		}
	}
}

func limit[T ~int | ~int64](o gpu.Opt[T]) gpu.Opt[float64] {
	v, known := o.Get()
	if !known {
		return gpu.Opt[float64]{}
	}
	return gpu.Some(float64(v))
}
