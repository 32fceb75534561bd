package report

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// mostCurves is the most users with a curve of their own.
const mostCurves = 7

// curves returns the numbers that a page draws.
func (s *period) curves() []api.Curve {
	list := []api.Curve{}
	add := func(names ...string) {
		for _, name := range names {
			for _, each := range s.Series[name] {
				list = append(list, api.Curve{Name: name, Of: each.Labels["gpu"], State: gpu.State(each.Labels["state"]), Points: finite(each.Points)})
			}
		}
	}
	add("load", "heat", "power", "state")
	list = append(append(list, s.memory()...), s.users()...)
	add("queue")
	return slices.DeleteFunc(list, func(c api.Curve) bool { return len(c.Points) == 0 })
}

// finite removes points that are not numbers.
func finite(points []api.QueryPoint) []api.QueryPoint {
	return slices.DeleteFunc(slices.Clone(points), func(p api.QueryPoint) bool { return math.IsNaN(p.Value) || math.IsInf(p.Value, 0) })
}

// memory returns how the memory of all devices was used.
func (s *period) memory() []api.Curve {
	sums := map[time.Time]*[4]float64{} // total, leased, used, foreign
	for i, question := range []string{"total", "leased", "memory", "foreign"} {
		for _, each := range s.Series[question] {
			for _, p := range each.Points {
				if sums[p.Time] == nil {
					sums[p.Time] = &[4]float64{}
				}
				sums[p.Time][i] += p.Value
			}
		}
	}
	times := sortedTimes(sums)
	curves := []api.Curve{{Name: "used"}, {Name: "unused"}, {Name: "foreign"}, {Name: "free"}}
	for _, t := range times {
		total, leased, foreign := sums[t][0], sums[t][1], sums[t][3]
		used := max(sums[t][2]-foreign, 0) // programs under leases, and what the driver keeps
		for i, v := range []float64{used, max(leased-used, 0), foreign, max(total-max(leased, used)-foreign, 0)} {
			curves[i].Points = append(curves[i].Points, api.QueryPoint{Time: t, Value: v})
		}
	}
	return curves
}

func sortedTimes[V any](m map[time.Time]V) []time.Time {
	return slices.SortedFunc(maps.Keys(m), time.Time.Compare)
}

// users returns the memory that the largest users leased, and that of the others.
func (s *period) users() []api.Curve {
	list := slices.Clone(s.Series["user_leased"])
	for i, each := range list { // MiB times seconds of each step
		list[i].Points = nil
		for _, p := range each.Points { // leases count while no daemon measures, too
			if since := min(s.Step().Seconds(), p.Time.Sub(s.begin).Seconds()); since > 0 && !s.begin.IsZero() {
				list[i].Points = append(list[i].Points, api.QueryPoint{Time: p.Time, Value: p.Value / since})
			}
		}
	}
	slices.SortFunc(list, func(x, y api.QuerySeries) int {
		return cmp.Or(cmp.Compare(integral(y.Points, s.up), integral(x.Points, s.up)), strings.Compare(x.Labels["user"], y.Labels["user"]))
	})
	var curves []api.Curve
	others := map[time.Time]float64{}
	for i, each := range list {
		if i < mostCurves || len(list) == mostCurves+1 {
			curves = append(curves, api.Curve{Name: "user", Of: each.Labels["user"], Points: finite(each.Points)})
			continue
		}
		for _, p := range finite(each.Points) {
			others[p.Time] += p.Value
		}
	}
	if len(others) > 0 {
		rest := api.Curve{Name: "user", Of: "(others)"}
		for _, t := range sortedTimes(others) {
			rest.Points = append(rest.Points, api.QueryPoint{Time: t, Value: others[t]})
		}
		curves = append(curves, rest)
	}
	return curves
}
