package programs

import (
	"context"
	"maps"
	"time"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
)

const (
	// billPatience is how long the daemon may take to report the energy that the
	// workers used. The end of the run waits for it.
	billPatience = 2 * time.Second
	// mostPast is how many ended leases the daemon keeps.
	mostPast = 2000
)

// energy returns the energy used by workers whose leases have ended. It is absent if
// the daemon does not know it.
func (p *places) energy(ctx context.Context) gpu.Opt[gpu.Joules] {
	var used gpu.Opt[gpu.Joules]
	var fences map[uint64]bool
	var began time.Time
	p.locked(func() { fences, began = maps.Clone(p.fences), p.began })
	if len(fences) == 0 {
		return used
	}
	ctx, cancel := context.WithTimeout(ctx, billPatience)
	defer cancel()
	past, err := p.daemon.PastLeases(ctx, client.PastQuery{Since: began, Limit: mostPast})
	if err != nil {
		return used
	}
	for _, l := range past.Leases {
		if joules, known := l.Energy.Get(); known && fences[l.Fence] {
			used = gpu.Some(used.Or(0) + joules)
		}
	}
	return used
}
