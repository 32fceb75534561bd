package report

import (
	"math"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// series fills in series from the samples of the last minutes if there is no store of the
// past.
func (s *period) series() {
	a := *s.Answers
	a.Series = map[string][]api.QuerySeries{}
	s.Answers = &a
	up := map[time.Time]float64{}
	put := func(name, uuid string, end time.Time, m *mean) {
		if m.n == 0 {
			return
		}
		list := a.Series[name]
		if n := len(list); n == 0 || list[n-1].Labels["gpu"] != uuid {
			list = append(list, api.QuerySeries{Labels: map[string]string{"gpu": uuid}})
		}
		last := &list[len(list)-1]
		last.Points = append(last.Points, api.QueryPoint{Time: end, Value: m.value()})
		a.Series[name] = list
	}
	for _, d := range a.Status.GPUs {
		uuid := d.Device.UUID
		samples := a.History[uuid]
		if pauses := s.stood(samples); len(pauses) > 0 {
			a.Series["idle"] = append(a.Series["idle"], api.QuerySeries{Labels: map[string]string{"gpu": uuid}, Points: pauses})
		}
		before := time.Time{}
		for end := s.From.Add(s.Step()); len(samples) > 0 && !end.After(s.Until.Add(s.Step())); end = end.Add(s.Step()) {
			var load, power, used, total mean
			hottest := mean{}
			measured := mean{}
			for len(samples) > 0 && !samples[0].Time.After(end) {
				one := samples[0]
				samples = samples[1:]
				if since := one.Time.Sub(before); !before.IsZero() && since <= longestGap {
					measured.add(since.Seconds(), true)
				} else {
					measured.add(0, true)
				}
				before = one.Time
				load.add(float64(one.Utilization.Or(0)), one.Utilization.Known())
				power.add(float64(one.Power.Or(0)), one.Power.Known() && one.PowerOf == "")
				used.add(float64(one.MemoryUsed.Or(0)), one.MemoryUsed.Known())
				total.add(float64(d.Device.MemoryTotal), true)
				hottest.raise(float64(one.Temperature.Or(0)), one.Temperature.Known())
			}
			if total.n > 0 {
				up[end] = max(up[end], measured.sum)
				measured.n = 1
			}
			put("seconds", uuid, end, &measured)
			put("load", uuid, end, &load)
			put("heat", uuid, end, &hottest)
			put("power", uuid, end, &power)
			put("memory", uuid, end, &used)
			put("total", uuid, end, &total)
		}
	}
	var marks api.QuerySeries
	for _, t := range sortedTimes(up) {
		marks.Points = append(marks.Points, api.QueryPoint{Time: t, Value: up[t]})
	}
	a.Series["up"] = []api.QuerySeries{marks}
}

// stood returns how much was measured of each block of time in which a device did nothing.
func (s *period) stood(samples []gpu.Sample) (list []api.QueryPoint) {
	for i, one := range samples {
		load, known := one.Utilization.Get()
		if !known {
			continue
		}
		end := one.Time.UTC().Add(-1).Truncate(s.pause()).Add(s.pause())
		if n := len(list); n == 0 || !list[n-1].Time.Equal(end) {
			list = append(list, api.QueryPoint{Time: end})
		}
		last := &list[len(list)-1]
		if load >= idle {
			last.Value = math.NaN() // and stays so
		}
		if i > 0 && one.Time.Sub(samples[i-1].Time) <= longestGap {
			last.Value += one.Time.Sub(samples[i-1].Time).Seconds()
		}
	}
	return finite(list)
}

// longestGap is the most time between two samples for which the second one stands.
const longestGap = 2 * time.Minute

// raise makes a mean the highest of the added values.
func (m *mean) raise(v float64, known bool) {
	if known && (m.n == 0 || v > m.sum) {
		m.sum, m.n = v, 1
	}
}
