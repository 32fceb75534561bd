package ledger

import (
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/allowance"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/placement"
)

// largestNow returns the most memory on each device that a request could have
// now, given the requests ahead of it and the settings of its service; zero if
// none. The caller holds mu.
func (m *machine) largestNow(r *lease.Request, before *placement.Line) gpu.MiB {
	return placement.LargestNow(m.snapshot, r, m.advice(r, before))
}

// largestEver returns the same for a machine on which nobody holds anything.
func (m *machine) largestEver(r *lease.Request) gpu.MiB {
	most := allowance.RoomEver(m.limitsOf(r), r.Devices(), placement.LargestEver(m.snapshot, r))
	service, known := m.settings.Services[r.Holder.Service]
	if !known {
		return most
	}
	return within(service, r.GPUs, most, lease.Usage{})
}

// within returns how much of an amount on each device a service may have that
// already uses used; zero if nothing.
func within(s Service, gpus int, amount gpu.MiB, used lease.Usage) gpu.MiB {
	if s.MaxMemory > 0 {
		amount = min(amount, s.MaxMemory)
	}
	if s.Quota.Memory > 0 {
		amount = min(amount, (s.Quota.Memory-used.Memory)/gpu.MiB(gpus))
	}
	if amount < max(s.MinMemory, 1) {
		return 0
	}
	return amount
}
