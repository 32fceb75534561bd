package lease

import (
	"math"

	"github.com/berth-gpu/berth/gpu"
)

// Capacity says how much of a device can be leased. It may change at any time; leases
// that no longer fit stay, and the book grants nothing new until there is room.
type Capacity struct {
	Total        gpu.MiB
	Limit        gpu.MiB // memory_limit_mb; zero means all of it
	Reserve      gpu.MiB // memory_reserve_mb
	MaxPipelines int     // slots in the best state
	Usable       int     // slots in the present state: UsableSlots, or 0 while nothing may be granted
}

// Ceiling returns how much memory can be leased when nobody holds any.
func (c Capacity) Ceiling() gpu.MiB {
	if c.Limit > 0 {
		return min(c.Total, c.Limit) - c.Reserve
	}
	return c.Total - c.Reserve
}

// UsableSlots returns how many slots of a device may be in use at a multiplier:
// floor(max × multiplier), but at least one unless the multiplier is zero. It adds
// a tiny amount because products like 100 × 0.29 come out below 29.
func UsableSlots(max int, multiplier float64) int {
	if max <= 0 || !(multiplier > 0) {
		return 0
	}
	n := int(math.Floor(float64(max)*math.Min(multiplier, 1) + 1e-9))
	if n < 1 {
		return 1
	}
	return n
}

// Sum holds the terms that say how much of a device can be leased.
type Sum struct {
	Capacity
	Leased  gpu.MiB // promised to active leases
	Overuse gpu.MiB // measured for the processes of leases beyond what was promised
	Foreign gpu.MiB // measured for processes under no lease
	Active  int     // slots of active leases
	Leases  int     // active leases
	Alone   int     // active leases that have the device alone: one, or none
}

// Available returns how much memory can be leased now. For each lease, leased +
// overuse is the larger of leased and measured, so the result is
//
//	min(total, limit) − reserve − Σ max(leased, measured) − foreign
//
// It is negative if processes use more than the ceiling. It is 0 if the device does not
// report its memory: slots can be leased there whatever runs.
func (s Sum) Available() gpu.MiB {
	if s.Total <= 0 && s.MaxPipelines > 0 {
		return 0
	}
	return s.Ceiling() - s.Leased - s.Overuse - s.Foreign
}

// FreeSlots returns how many slots can be granted now.
func (s Sum) FreeSlots() int { return max(s.Usable-s.Active, 0) }
