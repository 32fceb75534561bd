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
func (s *state) largestNow(r *lease.Request, before *placement.Ahead) gpu.MiB {
	return placement.LargestNow(s.snapshot, r, s.advice(r, before))
}

// largestEver returns the most memory on each device that a request could have if nobody
// held anything, given the settings of its service; zero if none.
func (s *state) largestEver(r *lease.Request) gpu.MiB {
	most := quota.RoomEver(s.limitsOf(r), r.Devices(), placement.LargestEver(s.snapshot, r))
	service, known := s.settings.Services[r.Holder.Service]
	if !known {
		return most
	}
	return service.Within(r.GPUs, most, lease.Usage{})
}
