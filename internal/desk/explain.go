package desk

import (
	"math"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease/placement"
)

// RankedOf returns the rank of a device for a request as the API shows it.
func RankedOf(p placement.Place) api.Ranked {
	u := &p.Use
	r := api.Ranked{
		GPU: p.GPU, Index: p.Index, Rank: p.Rank, Preferred: p.Preferred, Replicas: p.Replicas,
		Active: u.Active, Usable: u.Usable, Available: u.Available, State: u.State,
	}
	if load := u.Recent.Load; load.Known() {
		r.Utilization = gpu.Some(gpu.Percent(tenths(load.Mean)))
	}
	if heat := u.Recent.Heat; heat.Known() {
		r.Temperature = gpu.Some(gpu.Celsius(tenths(heat.Mean)))
	}
	if settles, known := p.Settles.Get(); known {
		r.Settles = gpu.Some(tenth(settles))
	}
	var why []string
	if p.Warm != "" && p.Rank > 0 {
		why = append(why, p.Warm)
	}
	for _, reason := range p.Reasons {
		r.Code = string(p.Reasons[0].Code)
		why = append(why, reason.Text)
	}
	r.Why = strings.Join(why, "; ")
	return r
}

// tenths rounds to one decimal.
func tenths(x float64) float64 { return math.Round(x*10) / 10 }
