package promexport

import (
	"cmp"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

var (
	userLimitDesc  = prometheus.NewDesc("berth_user_limit", "What the entry of a user in the configuration allows, by limit. The user default is users.default.", []string{"user", "limit"}, nil)
	groupLimitDesc = prometheus.NewDesc("berth_group_limit", "What the members of a group may have together, by limit.", []string{"group", "limit"}, nil)
	groupUsedDesc  = prometheus.NewDesc("berth_group_used", "What the members of a group have together, by limit.", []string{"group", "limit"}, nil)
)

// mostEntries limits the users and the groups that have lines. Their names come from
// the configuration, so nobody else can make them up.
const mostEntries = 50

// limits is a collector of the limits of users and groups.
type limits struct{ from Sources }

func (c *limits) Describe(out chan<- *prometheus.Desc) {
	out <- userLimitDesc
	out <- groupLimitDesc
	out <- groupUsedDesc
}

func (c *limits) Collect(out chan<- prometheus.Metric) {
	if c.from.Limits == nil {
		return
	}
	rules := c.from.Limits()
	sendLimits(out, "default", &rules.Default)
	users := slices.SortedFunc(entriesOf(rules), func(a, b quota.User) int { return cmp.Compare(a.Name, b.Name) })
	for _, u := range users[:min(len(users), mostEntries)] {
		sendLimits(out, u.Name, &u.Configured)
	}
	groups := slices.SortedFunc(maps.Values(rules.Groups), func(a, b quota.Group) int { return cmp.Compare(a.Name, b.Name) })
	for _, g := range groups[:min(len(groups), mostEntries)] {
		has := c.from.Ledger().Usage(&lease.Limits{Together: []lease.Together{{Group: g.Name}}}).Together[0]
		for _, l := range []struct {
			name string
			most gpu.Opt[float64]
			used float64
		}{
			{"memory_mb", number(g.Together.Memory), float64(has.Memory)}, {"slots", number(g.Together.Slots), float64(has.Slots)},
			{"leases", number(g.Together.Leases), float64(has.Leases)},
		} {
			if most, set := l.most.Get(); set {
				out <- prometheus.MustNewConstMetric(groupLimitDesc, gauge, most, g.Name, l.name)
				out <- prometheus.MustNewConstMetric(groupUsedDesc, gauge, l.used, g.Name, l.name)
			}
		}
	}
}

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

func sendLimits(out chan<- prometheus.Metric, user string, l *quota.Configured) {
	for name, limit := range map[string]gpu.Opt[float64]{
		"memory_mb": number(l.Memory), "slots": number(l.Slots), "leases": number(l.Leases), "waiting": number(l.Waiting),
		"calls_per_second": l.Calls, "connections": number(l.Connections), "streams": number(l.Streams),
	} {
		if most, set := limit.Get(); set {
			out <- prometheus.MustNewConstMetric(userLimitDesc, gauge, most, user, name)
		}
	}
}

func number[T ~int | ~int64](o gpu.Opt[T]) gpu.Opt[float64] {
	v, known := o.Get()
	if !known {
		return gpu.Opt[float64]{}
	}
	return gpu.Some(float64(v))
}
