package monitor

import (
	"math"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// curved is how far back curves go.
const curved = 5 * time.Minute

// Curves returns the readings of a device in the last minutes, as averages over n equal
// stretches of time. It copies no samples, because berth status asks for it.
func (m *Monitor) Curves(uuid string, now time.Time, n int) *api.Curves {
	c := &api.Curves{Seconds: curved.Seconds(), Points: n, Utilization: []gpu.Percent{}, Temperature: []gpu.Celsius{}}
	u := m.unit(uuid)
	if u == nil || n < 1 {
		return c
	}
	load, temperature := make([]average, n), make([]average, n)
	step := curved / time.Duration(n)
	u.mu.RLock()
	for back := range u.history.count {
		s := u.history.back(back)
		ago := now.Sub(s.Time)
		if ago >= step*time.Duration(n) {
			break
		}
		at := n - 1 - max(0, int(ago/step))
		load[at].add(float64(s.Utilization.Or(gpu.Percent(math.NaN()))))
		temperature[at].add(float64(s.Temperature.Or(gpu.Celsius(math.NaN()))))
	}
	u.mu.RUnlock()
	c.Utilization, c.Temperature = averages[gpu.Percent](load), averages[gpu.Celsius](temperature)
	return c
}

// average sums the measurements in a stretch of time.
type average struct {
	sum   float64
	count int
}

func (a *average) add(v float64) {
	if !math.IsNaN(v) {
		a.sum, a.count = a.sum+v, a.count+1
	}
}

// averages returns the averages from the first stretch with a measurement on, rounded to
// tenths.
func averages[T ~float64](stretches []average) []T {
	list := make([]T, 0, len(stretches))
	for _, a := range stretches {
		switch {
		case a.count > 0:
			list = append(list, T(math.Round(a.sum/float64(a.count)*10)/10))
		case len(list) > 0:
			list = append(list, list[len(list)-1])
		}
	}
	return list
}
