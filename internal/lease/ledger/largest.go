package ledger

import (
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// largestNow returns the most memory on each device that a request could have
// now, given the requests ahead of it and the settings of its service; zero if
// none. The caller holds mu.
func (m *machine) largestNow(r *lease.Request, before *placement.Line) gpu.MiB {
	return placement.LargestNow(m.snapshot, r, m.advice(r, before))
}

// largestEver returns the same for a machine on which nobody holds anything.
func (m *machine) largestEver(r *lease.Request) gpu.MiB {
	most := quota.RoomEver(m.limitsOf(r), r.Devices(), placement.LargestEver(m.snapshot, r))
	service, known := m.settings.Services[r.Holder.Service]
	if !known {
		return most
	}
	return service.Within(r.GPUs, most, lease.Usage{})
}
