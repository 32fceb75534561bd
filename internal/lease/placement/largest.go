package placement

import (
	"cmp"
	"slices"
	"sort"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

// LargestNow returns the most memory on each device with which Choose would
// place a request now, within its limits; zero if there is none.
func LargestNow(s *Snapshot, r *lease.Request, gate Gate) gpu.MiB {
	var most gpu.MiB
	for _, room := range s.room {
		most = max(most, room)
	}
	ask := *r
	ask.Exclusive = false // what it could have if it shared
	chosen := make([]string, 0, r.Devices())
	tooMuch := func(less int) bool {
		ask.Memory = gpu.MiB(less + 1)
		_, fits := Choose(s, &ask, gate, chosen)
		return !fits
	}
	if tooMuch(0) { // the usual answer while many requests wait, when each try may take long
		return 0
	}
	most = gpu.MiB(sort.Search(int(most), tooMuch))
	if gate != nil {
		return gate.Allow(most)
	}
	return most
}

// LargestEver returns the most memory on each device with which Choose would
// place a request if nobody held anything and every device were well; zero if
// there is none.
func LargestEver(s *Snapshot, r *lease.Request) gpu.MiB {
	n := s.needOf(r, nil)
	return largest(s.ceilings(&n), r.Devices())
}

// ceilings returns the memory that each device could ever give, for the devices
// that meet the constraints of a request and have the slots.
func (s *Snapshot) ceilings(n *need) []gpu.MiB {
	var all []gpu.MiB
	for i := range s.devices {
		if s.meets(n, i) && s.use[i].MaxPipelines >= n.slots {
			all = append(all, s.use[i].Ceiling)
		}
	}
	return all
}

// largest returns the most memory that count devices each have; zero if fewer
// have any.
func largest(amounts []gpu.MiB, count int) gpu.MiB {
	if len(amounts) < count {
		return 0
	}
	slices.SortFunc(amounts, func(a, b gpu.MiB) int { return cmp.Compare(b, a) })
	return max(amounts[count-1], 0)
}
